package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"k3sstandin/logs"
)

// relayAPI lets pods reach the API at the address of the Service "kubernetes". There is no
// kube-proxy: the address is put on the loopback interface of the node, and what arrives at
// port 443 is passed on to the server, still encrypted.
func relayAPI(ctx context.Context, serviceIP, serverURL string) error {
	server, err := url.Parse(serverURL)
	if err != nil {
		return err
	}
	address := server.Host
	if server.Port() == "" {
		address = net.JoinHostPort(server.Hostname(), "443")
	}
	if err := addToLoopback(serviceIP); err != nil {
		return fmt.Errorf("put %s on the loopback interface: %w", serviceIP, err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(serviceIP, "443"))
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		listener.Close()
	}()
	go func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // out of file descriptors
				time.Sleep(100 * time.Millisecond)
				continue
			}
			go relay(conn, address)
		}
	}()
	logs.Infof("Pods reach the API at %s:443", serviceIP)
	return nil
}

func addToLoopback(ip string) error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	address := &netlink.Addr{IPNet: hostNetwork(net.ParseIP(ip))}
	if err := netlink.AddrAdd(loopback, address); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

func hostNetwork(ip net.IP) *net.IPNet {
	if four := ip.To4(); four != nil {
		return &net.IPNet{IP: four, Mask: net.CIDRMask(32, 32)}
	}
	return &net.IPNet{IP: ip, Mask: net.CIDRMask(128, 128)}
}

func relay(near net.Conn, address string) {
	defer near.Close()
	far, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return
	}
	defer far.Close()
	done := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		io.Copy(to, from)
		if half, ok := to.(*net.TCPConn); ok {
			half.CloseWrite()
		}
		done <- struct{}{}
	}
	go pass(far, near)
	go pass(near, far)
	<-done
	<-done
}
