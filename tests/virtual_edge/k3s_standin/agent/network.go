package agent

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"k3sstandin/config"
	"k3sstandin/kubeapi"
	"k3sstandin/logs"
	"k3sstandin/pki"
)

// network gives the pods of this node their addresses and the way to the pods of other nodes,
// as flannel's host-gw backend does: by plain routes.
type network struct {
	self   string
	paths  paths
	api    *kubeapi.Client
	routes map[string]netlink.Route // by node name
	pods   string                   // this node's range, once written
	// servers is told the addresses of the cluster's servers.
	servers func([]string)
	known   map[string]kubeapi.Node
}

func newNetwork(node config.Node, paths paths, servers func([]string)) (*network, error) {
	api, err := kubeapi.New(node.ServerURL, paths.in("server-ca.crt"),
		paths.in("client-k3s-controller.crt"), paths.in("client-k3s-controller.key"))
	if err != nil {
		return nil, err
	}
	return &network{
		self: node.Name, paths: paths, api: api, servers: servers,
		routes: map[string]netlink.Route{}, known: map[string]kubeapi.Node{},
	}, nil
}

// run follows the nodes of the cluster until the context ends.
func (n *network) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := n.api.FollowNodes(ctx, n.known, n.changed, n.gone); err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

func (n *network) changed(node kubeapi.Node) {
	n.tellServers()
	switch {
	case node.Spec.PodCIDR == "":
	case node.Metadata.Name == n.self:
		n.configure(node.Spec.PodCIDR)
	default:
		n.route(node)
	}
}

func (n *network) tellServers() {
	var addresses []string
	for _, name := range slices.Sorted(maps.Keys(n.known)) {
		node := n.known[name]
		if _, server := node.Metadata.Labels[kubeapi.ServerLabel]; server && node.InternalIP() != "" {
			addresses = append(addresses, node.InternalIP())
		}
	}
	// An empty list is of a cluster that just starts; what is known already is better.
	if len(addresses) > 0 {
		n.servers(addresses)
	}
}

func (n *network) configure(podCIDR string) {
	if podCIDR == n.pods {
		return
	}
	if err := n.writeCNI(podCIDR); err != nil {
		logs.Errorf("Failed to write the pod network of %s: %v", n.self, err)
		return
	}
	n.pods = podCIDR
	logs.Infof("Pods of this node get addresses from %s", podCIDR)
}

// writeCNI configures a bridge without address translation, which works in a container that
// has no iptables modules.
func (n *network) writeCNI(podCIDR string) error {
	text, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       "cbr0",
		"plugins": []map[string]any{{
			"type":             "bridge",
			"bridge":           "cni0",
			"isDefaultGateway": true,
			"forceAddress":     true, // a node that was deleted and joined again may get another range
			"hairpinMode":      true,
			"ipMasq":           false,
			"ipam": map[string]any{
				"type":   "host-local",
				"ranges": [][]map[string]string{{{"subnet": podCIDR}}},
			},
		}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return pki.WriteFile(n.paths.in("etc", "cni", "net.d", "10-standin.conflist"), append(text, '\n'), 0o644)
}

func (n *network) route(node kubeapi.Node) {
	_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
	gateway := net.ParseIP(node.InternalIP())
	if err != nil || gateway == nil {
		return
	}
	route := netlink.Route{Dst: pods, Gw: gateway}
	if old, present := n.routes[node.Metadata.Name]; present && old.Equal(route) {
		return
	}
	if err := netlink.RouteReplace(&route); err != nil {
		logs.Errorf("Failed to route %s via %s, the pods of %s stay out of reach: %v",
			pods, gateway, node.Metadata.Name, err)
		return
	}
	n.routes[node.Metadata.Name] = route
	logs.Infof("Pods of %s are at %s via %s", node.Metadata.Name, pods, gateway)
}

func (n *network) gone(node kubeapi.Node) {
	n.tellServers()
	route, present := n.routes[node.Metadata.Name]
	if !present {
		return
	}
	delete(n.routes, node.Metadata.Name)
	if err := netlink.RouteDel(&route); err != nil {
		logs.Errorf("Failed to remove the route to %s: %v", route.Dst, err)
	}
}
