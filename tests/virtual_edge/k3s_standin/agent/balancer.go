package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"k3sstandin/config"
	"k3sstandin/logs"
	"k3sstandin/pki"
)

// balancer is an agent's way to the servers, as in k3s: one address on this machine from which
// every connection goes to a server that answers. It remembers the servers over restarts.
type balancer struct {
	file    string
	mutex   sync.Mutex
	servers []string // the one that the agent was given first, then those that the cluster has
	down    map[string]bool
	open    map[net.Conn]string // to which server
}

// State that outlives a restart, in k3s's words.
type balancerState struct {
	ServerURL       string
	ServerAddresses []string
}

const (
	probePause   = 2 * time.Second
	probeTimeout = 2 * time.Second
)

// startBalancer listens on this machine and makes the node use it.
func startBalancer(ctx context.Context, node *config.Node, paths paths) (*balancer, error) {
	server, err := hostPort(node.ServerURL)
	if err != nil {
		return nil, err
	}
	b := &balancer{
		file:    paths.in("etc", "k3s-agent-load-balancer.json"),
		servers: []string{server},
		down:    map[string]bool{},
		open:    map[net.Conn]string{},
	}
	var state balancerState
	if data, err := os.ReadFile(b.file); err == nil && json.Unmarshal(data, &state) == nil && state.ServerURL == node.ServerURL {
		b.servers = append(b.servers, without(state.ServerAddresses, server)...)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(node.BalancerPort))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	logs.Infof("Running load balancer k3s-agent-load-balancer %s -> %v [default: %s]", address, b.servers[1:], server)
	node.ServerURL = "https://" + address
	go accept(ctx, listener, b.pass)
	go b.probe(ctx)
	return b, nil
}

func hostPort(address string) (string, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	if parsed.Port() == "" {
		return net.JoinHostPort(parsed.Hostname(), "443"), nil
	}
	return parsed.Host, nil
}

func without(list []string, unwanted string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(item string) bool { return item == unwanted })
}

// learn takes over the addresses of the cluster's servers; their port is that of the first one.
func (b *balancer) learn(addresses []string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	_, port, err := net.SplitHostPort(b.servers[0])
	if err != nil {
		return
	}
	servers := []string{b.servers[0]}
	for _, address := range addresses {
		servers = append(servers, without([]string{net.JoinHostPort(address, port)}, b.servers[0])...)
	}
	if slices.Equal(servers, b.servers) {
		return
	}
	b.servers = servers
	logs.Infof("Servers of the load balancer: %v", servers)
	text, err := json.Marshal(balancerState{ServerURL: "https://" + servers[0], ServerAddresses: servers[1:]})
	if err == nil {
		err = pki.WriteFile(b.file, append(text, '\n'), 0o600)
	}
	if err != nil {
		logs.Errorf("Failed to remember the servers: %v", err)
	}
}

// order puts the servers that answered last time first.
func (b *balancer) order() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	servers := slices.Clone(b.servers)
	slices.SortStableFunc(servers, func(one, other string) int {
		return score(b.down[one]) - score(b.down[other])
	})
	return servers
}

func score(down bool) int {
	if down {
		return 1
	}
	return 0
}

func (b *balancer) pass(near net.Conn) {
	for _, server := range b.order() {
		far, err := net.DialTimeout("tcp", server, probeTimeout)
		b.mark(server, err != nil)
		if err != nil {
			continue
		}
		b.mutex.Lock()
		b.open[far] = server
		b.mutex.Unlock()
		relay(near, far)
		b.mutex.Lock()
		delete(b.open, far)
		b.mutex.Unlock()
		return
	}
	near.Close()
}

// mark notes whether a server answers, and cuts the connections to one that does not: its board
// may have lost power, and then nobody else would.
func (b *balancer) mark(server string, down bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if down && !b.down[server] {
		logs.Warnf("Server %s does not answer", server)
		for conn, to := range b.open {
			if to == server {
				conn.Close()
			}
		}
	}
	b.down[server] = down
}

func (b *balancer) probe(ctx context.Context) {
	for {
		for _, server := range b.order() {
			conn, err := net.DialTimeout("tcp", server, probeTimeout)
			b.mark(server, err != nil)
			if err == nil {
				conn.Close()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(probePause):
		}
	}
}

// accept hands each connection to handle until the context ends.
func accept(ctx context.Context, listener net.Listener, handle func(net.Conn)) {
	go func() {
		<-ctx.Done()
		listener.Close()
	}()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors
			logs.Errorf("Failed to accept a connection: %v", fmt.Errorf("%s: %w", listener.Addr(), err))
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go handle(conn)
	}
}
