package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"k3sstandin/logs"
)

// relayAPI lets pods reach the API at the address of the Service "kubernetes". There is no
// kube-proxy: the address is put on the loopback interface of the node, and what arrives at
// port 443 is passed on to the server, still encrypted.
func relayAPI(ctx context.Context, serviceIP, serverURL string) error {
	address, err := hostPort(serverURL)
	if err != nil {
		return err
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
		removeFromLoopback(serviceIP)
	}()
	go accept(ctx, listener, func(near net.Conn) {
		far, err := net.DialTimeout("tcp", address, 10*time.Second)
		if err != nil {
			near.Close()
			return
		}
		relay(near, far)
	})
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

// removeFromLoopback leaves the machine as it was before the start.
func removeFromLoopback(ip string) {
	loopback, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.AddrDel(loopback, &netlink.Addr{IPNet: hostNetwork(net.ParseIP(ip))})
	}
	if err != nil {
		logs.Errorf("Failed to take %s from the loopback interface: %v", ip, err)
	}
}

// relay passes bytes both ways until both ends are done, and closes both.
func relay(near, far net.Conn) {
	defer near.Close()
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
