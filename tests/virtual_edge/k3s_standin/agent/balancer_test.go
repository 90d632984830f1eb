package agent

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"k3sstandin/config"
)

// namedServer answers every connection with its name, and holds it until the end of the test.
func namedServer(t *testing.T, address, name string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err) // an address of 127.0.0.0/8 that this system does not have
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte(name))
			conn.Close()
		}
	}()
	return listener
}

func ask(t *testing.T, url string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text, _ := io.ReadAll(conn)
	return string(text)
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func TestAnAgentFindsAnotherServerAndRemembersIt(t *testing.T) {
	one := namedServer(t, "127.0.0.1:0", "one")
	_, port, _ := net.SplitHostPort(one.Addr().String())
	namedServer(t, net.JoinHostPort("127.0.0.2", port), "two")
	folder := newPaths(filepath.Join(t.TempDir(), "k3s"))
	start := func() (*balancer, string) {
		node := config.Node{ServerURL: "https://" + one.Addr().String(), BalancerPort: freePort(t)}
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		b, err := startBalancer(ctx, &node, folder)
		if err != nil {
			t.Fatal(err)
		}
		return b, node.ServerURL
	}
	b, url := start()
	if got := ask(t, url); got != "one" {
		t.Errorf("got %q", got)
	}
	b.learn([]string{"127.0.0.1", "127.0.0.2"})
	if len(b.servers) != 2 {
		t.Errorf("servers %q", b.servers)
	}
	one.Close()
	if got := ask(t, url); got != "two" {
		t.Errorf("after the first is down: got %q", got)
	}
	_, url = start()
	if got := ask(t, url); got != "two" {
		t.Errorf("after a restart: got %q", got)
	}
}

func TestAConnectionToAServerThatVanishedIsCut(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	b := &balancer{down: map[string]bool{}, open: map[net.Conn]string{far: "a:1"}}
	b.mark("b:1", true)
	b.mark("a:1", true)
	if _, err := near.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v", err)
	}
}
