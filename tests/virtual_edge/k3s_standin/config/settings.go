package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"k3sstandin/datastore"
)

// DefaultDataDir is k3s's folder for all state.
const DefaultDataDir = "/var/lib/rancher/k3s"

// DefaultPauseImage is the sandbox image of the stand-in's own image archive.
const DefaultPauseImage = "localhost/pause:1"

// Node holds the settings of the node that this machine becomes, on a server and on an agent.
type Node struct {
	DataDir     string
	ServerURL   string // of the supervisor to join
	Token       string // as given, short or secure
	Name        string
	WithID      bool
	IPs         []string
	Labels      []string
	Taints      []string
	KubeletArgs []string
	PauseImage  string
	Snapshotter string
	ResolvConf  string
	// BalancerPort is where an agent reaches whichever server runs; 0 is straight to ServerURL.
	BalancerPort int
	// Light is a node without containers and kubelet, see package agent.
	Light bool
}

// Server holds the settings of a server's control plane.
type Server struct {
	Node             Node // its ServerURL is of the server to join, if any
	ClusterInit      bool
	Datastore        datastore.Config
	AgentToken       string
	BindAddress      string
	Port             int
	AdvertiseAddress string
	TLSSANs          []string
	ClusterCIDR      string
	ServiceCIDR      string
	NodePortRange    string
	ClusterDNS       string
	ClusterDomain    string
	Kubeconfig       string
	KubeconfigMode   os.FileMode
	APIServerArgs    []string
	ControllerArgs   []string
	SchedulerArgs    []string
}

// AgentSettings checks the values of "k3s agent".
func AgentSettings(values Values, hostname string) (Node, error) {
	node, err := nodeSettings(values, hostname)
	if err != nil {
		return Node{}, err
	}
	if node.Token == "" {
		return Node{}, errors.New("--token is required")
	}
	if node.ServerURL == "" {
		return Node{}, errors.New("--server is required")
	}
	node.BalancerPort = values.Int("lb-server-port", 6444)
	return node, checkURL(node.ServerURL)
}

func checkURL(url string) error {
	if url != "" && !strings.HasPrefix(url, "https://") {
		return fmt.Errorf("only https:// URLs are supported, invalid scheme: %s", url)
	}
	return nil
}

// ServerSettings checks the values of "k3s server".
func ServerSettings(values Values, hostname string) (Server, error) {
	node, err := nodeSettings(values, hostname)
	if err != nil {
		return Server{}, err
	}
	for name, reason := range unsupported {
		if text := values.Text(name, ""); text != "" && text != "false" {
			return Server{}, fmt.Errorf("the stand-in has no %s; remove %q from the configuration",
				reason, name)
		}
	}
	server := Server{
		Node:             node,
		ClusterInit:      values.Bool("cluster-init"),
		BindAddress:      values.Text("bind-address", "0.0.0.0"),
		Port:             values.Int("https-listen-port", 6443),
		AdvertiseAddress: values.Text("advertise-address", ""),
		TLSSANs:          values["tls-san"],
		ClusterCIDR:      values.Text("cluster-cidr", "10.42.0.0/16"),
		ServiceCIDR:      values.Text("service-cidr", "10.43.0.0/16"),
		NodePortRange:    values.Text("service-node-port-range", "30000-32767"),
		ClusterDNS:       values.Text("cluster-dns", ""),
		ClusterDomain:    values.Text("cluster-domain", "cluster.local"),
		Kubeconfig:       values.Text("write-kubeconfig", "/etc/rancher/k3s/k3s.yaml"),
		APIServerArgs:    values["kube-apiserver-arg"],
		ControllerArgs:   values["kube-controller-manager-arg"],
		SchedulerArgs:    values["kube-scheduler-arg"],
	}
	if err := checkURL(node.ServerURL); err != nil {
		return Server{}, err
	}
	if server.Datastore, err = datastoreSettings(values); err != nil {
		return Server{}, err
	}
	if server.Port < 1 || server.Port > 65534 {
		return Server{}, fmt.Errorf("https-listen-port %d is not between 1 and 65534", server.Port)
	}
	mode := values.Text("write-kubeconfig-mode", "0600")
	bits, err := strconv.ParseUint(mode, 8, 12)
	if err != nil {
		return Server{}, fmt.Errorf("write-kubeconfig-mode %q is not an octal file mode", mode)
	}
	server.KubeconfigMode = os.FileMode(bits)
	if _, err := netip.ParsePrefix(server.ClusterCIDR); err != nil {
		return Server{}, fmt.Errorf("invalid cluster-cidr %s: %w", server.ClusterCIDR, err)
	}
	services, err := netip.ParsePrefix(server.ServiceCIDR)
	if err != nil {
		return Server{}, fmt.Errorf("invalid service-cidr %s: %w", server.ServiceCIDR, err)
	}
	if server.ClusterDNS == "" {
		server.ClusterDNS = nth(services, 10).String()
	}
	if server.AgentToken, err = secret(values, "agent-token", "agent-token-file"); err != nil {
		return Server{}, err
	}
	if server.AdvertiseAddress == "" {
		server.AdvertiseAddress = node.IPs[0]
	}
	return server, nil
}

// unsupported are keys that ask for something that the stand-in cannot do. Accepting them silently
// would give a cluster that is not what was asked for.
var unsupported = map[string]string{
	"cluster-reset": "cluster reset",
}

// datastoreSettings reads the addresses of an external etcd, separated by commas.
func datastoreSettings(values Values) (datastore.Config, error) {
	text := values.Text("datastore-endpoint", "")
	if text == "" {
		return datastore.Config{}, nil
	}
	config := datastore.Config{
		Endpoints: strings.Split(text, ","),
		CAFile:    values.Text("datastore-cafile", ""),
		CertFile:  values.Text("datastore-certfile", ""),
		KeyFile:   values.Text("datastore-keyfile", ""),
	}
	for _, endpoint := range config.Endpoints {
		// Anything else may hold a password.
		if scheme, _, _ := strings.Cut(endpoint, "://"); scheme != "http" && scheme != "https" {
			return datastore.Config{}, errors.New("the stand-in takes only etcd, http://HOST:PORT or https://HOST:PORT, " +
				"as datastore-endpoint")
		}
	}
	return config, nil
}

// APIServiceIP is the first address of the service range: the Service "kubernetes".
func (s Server) APIServiceIP() string { return nth(netip.MustParsePrefix(s.ServiceCIDR), 1).String() }

func nth(prefix netip.Prefix, n int) netip.Addr {
	address := prefix.Masked().Addr()
	for range n {
		address = address.Next()
	}
	return address
}

// RFC 1123 subdomain, as Kubernetes demands of node names.
var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

func nodeSettings(values Values, hostname string) (Node, error) {
	node := Node{
		ServerURL:   strings.TrimRight(values.Text("server", ""), "/"),
		Name:        strings.ToLower(values.Text("node-name", hostname)),
		WithID:      values.Bool("with-node-id"),
		IPs:         values["node-ip"],
		Labels:      values["node-label"],
		Taints:      values["node-taint"],
		KubeletArgs: values["kubelet-arg"],
		PauseImage:  values.Text("pause-image", DefaultPauseImage),
		Snapshotter: values.Text("snapshotter", "overlayfs"),
		ResolvConf:  values.Text("resolv-conf", ""),
	}
	var err error
	if node.DataDir, err = filepath.Abs(values.Text("data-dir", DefaultDataDir)); err != nil {
		return Node{}, err
	}
	if !nodeName.MatchString(node.Name) {
		return Node{}, fmt.Errorf("invalid node name %q: must be a lowercase RFC 1123 subdomain", node.Name)
	}
	for _, ip := range node.IPs {
		if net.ParseIP(ip) == nil {
			return Node{}, fmt.Errorf("invalid node-ip: invalid ip format '%s'", ip)
		}
	}
	if len(node.IPs) == 0 {
		ip, err := defaultRouteIP()
		if err != nil {
			return Node{}, err
		}
		node.IPs = []string{ip}
	}
	if node.Token, err = secret(values, "token", "token-file"); err != nil {
		return Node{}, err
	}
	return node, nil
}

func secret(values Values, key, fileKey string) (string, error) {
	if text := values.Text(key, ""); text != "" {
		return text, nil
	}
	file := values.Text(fileKey, "")
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", fileKey, err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("%s: %s is empty", fileKey, file)
	}
	return text, nil
}

// defaultRouteIP asks the kernel for the source address of the default route; no packet is sent.
func defaultRouteIP() (string, error) {
	conn, err := net.Dial("udp", "192.0.2.1:9")
	if err != nil {
		return "", fmt.Errorf("no default routes found in \"/proc/net/route\" or \"/proc/net/ipv6_route\" (%w); set node-ip", err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}
