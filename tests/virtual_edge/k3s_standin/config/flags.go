// Package config reads the command line and the configuration files of k3s
// (https://docs.k3s.io/installation/configuration): every key of config.yaml is a flag of the
// command without its dashes.
package config

// Kind is the type of a flag's value.
type Kind int

// The kinds of values that k3s's flags have.
const (
	String Kind = iota
	Int
	Bool
	List      // may be repeated
	CommaList // may be repeated, and one value may hold several separated by commas
)

// Flag is one flag of k3s.
type Flag struct {
	Name    string
	Aliases []string
	Kind    Kind
	Env     string // environment variable with the same meaning, if any
	Acts    bool   // the stand-in acts upon it; otherwise it is accepted and changes nothing
}

// shared are the flags that "server" and "agent" have in common. Sources: pkg/cli/cmds/agent.go,
// server.go, config.go and log.go of k3s.
var shared = []Flag{
	{Name: "config", Aliases: []string{"c"}, Env: "K3S_CONFIG_FILE", Acts: true},
	{Name: "debug", Kind: Bool, Env: "K3S_DEBUG"},
	{Name: "v", Kind: Int},
	{Name: "vmodule"},
	{Name: "log", Aliases: []string{"l"}},
	{Name: "alsologtostderr", Kind: Bool},
	{Name: "token", Aliases: []string{"t"}, Env: "K3S_TOKEN", Acts: true},
	{Name: "token-file", Env: "K3S_TOKEN_FILE", Acts: true},
	{Name: "server", Aliases: []string{"s"}, Env: "K3S_URL", Acts: true},
	{Name: "data-dir", Aliases: []string{"d"}, Env: "K3S_DATA_DIR", Acts: true},
	{Name: "node-name", Env: "K3S_NODE_NAME", Acts: true},
	{Name: "with-node-id", Kind: Bool, Acts: true},
	{Name: "node-label", Kind: List, Acts: true},
	{Name: "node-taint", Kind: List, Acts: true},
	{Name: "node-ip", Aliases: []string{"i"}, Kind: CommaList, Acts: true},
	{Name: "node-external-ip", Kind: CommaList},
	{Name: "node-internal-dns", Kind: CommaList},
	{Name: "node-external-dns", Kind: CommaList},
	{Name: "kubelet-arg", Kind: List, Acts: true},
	{Name: "kube-proxy-arg", Kind: List},
	{Name: "pause-image", Acts: true},
	{Name: "snapshotter", Acts: true},
	{Name: "resolv-conf", Env: "K3S_RESOLV_CONF", Acts: true},
	{Name: "image-credential-provider-bin-dir"},
	{Name: "image-credential-provider-config"},
	{Name: "selinux", Kind: Bool, Env: "K3S_SELINUX"},
	{Name: "disable-selinux", Kind: Bool},
	{Name: "lb-server-port", Kind: Int, Env: "K3S_LB_SERVER_PORT", Acts: true},
	{Name: "protect-kernel-defaults", Kind: Bool},
	{Name: "container-runtime-endpoint"},
	{Name: "image-service-endpoint"},
	{Name: "default-runtime"},
	{Name: "disable-default-registry-endpoint", Kind: Bool},
	{Name: "nonroot-devices", Kind: Bool},
	{Name: "private-registry"},
	{Name: "airgap-extra-registry", Kind: List},
	{Name: "flannel-iface"},
	{Name: "flannel-conf"},
	{Name: "flannel-cni-conf"},
	{Name: "no-flannel", Kind: Bool},
	{Name: "vpn-auth", Env: "K3S_VPN_AUTH"},
	{Name: "vpn-auth-file", Env: "K3S_VPN_AUTH_FILE"},
	{Name: "enable-pprof", Kind: Bool},
	{Name: "rootless", Kind: Bool},
	{Name: "prefer-bundled-bin", Kind: Bool},
	{Name: "docker", Kind: Bool},
	{Name: "cluster-secret", Env: "K3S_CLUSTER_SECRET"},
}

var agentOnly = []Flag{
	{Name: "disable-apiserver-lb", Kind: Bool},
}

var serverOnly = []Flag{
	{Name: "bind-address", Acts: true},
	{Name: "https-listen-port", Kind: Int, Acts: true},
	{Name: "supervisor-port", Kind: Int},
	{Name: "apiserver-port", Kind: Int},
	{Name: "apiserver-bind-address"},
	{Name: "advertise-address", Acts: true},
	{Name: "advertise-port", Kind: Int},
	{Name: "tls-san", Kind: CommaList, Acts: true},
	{Name: "tls-san-security", Kind: Bool},
	{Name: "cluster-cidr", Kind: CommaList, Acts: true},
	{Name: "service-cidr", Kind: CommaList, Acts: true},
	{Name: "service-node-port-range", Acts: true},
	{Name: "cluster-dns", Kind: CommaList, Acts: true},
	{Name: "cluster-domain", Acts: true},
	{Name: "flannel-backend"},
	{Name: "flannel-ipv6-masq", Kind: Bool},
	{Name: "flannel-external-ip", Kind: Bool},
	{Name: "egress-selector-mode"},
	{Name: "servicelb-namespace"},
	{Name: "write-kubeconfig", Aliases: []string{"o"}, Env: "K3S_KUBECONFIG_OUTPUT", Acts: true},
	{Name: "write-kubeconfig-mode", Env: "K3S_KUBECONFIG_MODE", Acts: true},
	{Name: "write-kubeconfig-group", Env: "K3S_KUBECONFIG_GROUP"},
	{Name: "helm-job-image"},
	{Name: "agent-token", Env: "K3S_AGENT_TOKEN", Acts: true},
	{Name: "agent-token-file", Env: "K3S_AGENT_TOKEN_FILE", Acts: true},
	{Name: "cluster-init", Kind: Bool, Env: "K3S_CLUSTER_INIT", Acts: true},
	{Name: "cluster-reset", Kind: Bool, Env: "K3S_CLUSTER_RESET", Acts: true},
	{Name: "cluster-reset-restore-path"},
	{Name: "kube-apiserver-arg", Kind: List, Acts: true},
	{Name: "etcd-arg", Kind: List},
	{Name: "kube-controller-manager-arg", Aliases: []string{"kube-controller-arg"}, Kind: List, Acts: true},
	{Name: "kube-scheduler-arg", Kind: List, Acts: true},
	{Name: "kube-cloud-controller-manager-arg", Aliases: []string{"kube-cloud-controller-arg"}, Kind: List},
	{Name: "kine-tls", Kind: Bool},
	{Name: "datastore-endpoint", Env: "K3S_DATASTORE_ENDPOINT", Acts: true},
	{Name: "datastore-cafile", Env: "K3S_DATASTORE_CAFILE", Acts: true},
	{Name: "datastore-certfile", Env: "K3S_DATASTORE_CERTFILE", Acts: true},
	{Name: "datastore-keyfile", Env: "K3S_DATASTORE_KEYFILE", Acts: true},
	{Name: "etcd-expose-metrics", Kind: Bool},
	{Name: "etcd-disable-snapshots", Kind: Bool},
	{Name: "etcd-snapshot-name"},
	{Name: "etcd-snapshot-schedule-cron"},
	{Name: "etcd-snapshot-reconcile-interval"},
	{Name: "etcd-snapshot-retention", Kind: Int},
	{Name: "etcd-snapshot-dir"},
	{Name: "etcd-snapshot-compress", Kind: Bool},
	{Name: "etcd-s3", Kind: Bool},
	{Name: "etcd-s3-endpoint"},
	{Name: "etcd-s3-endpoint-ca"},
	{Name: "etcd-s3-skip-ssl-verify", Kind: Bool},
	{Name: "etcd-s3-access-key", Env: "AWS_ACCESS_KEY_ID"},
	{Name: "etcd-s3-secret-key", Env: "AWS_SECRET_ACCESS_KEY"},
	{Name: "etcd-s3-session-token", Env: "AWS_SESSION_TOKEN"},
	{Name: "etcd-s3-bucket"},
	{Name: "etcd-s3-bucket-lookup-type"},
	{Name: "etcd-s3-region"},
	{Name: "etcd-s3-folder"},
	{Name: "etcd-s3-proxy"},
	{Name: "etcd-s3-config-secret"},
	{Name: "etcd-s3-insecure", Kind: Bool},
	{Name: "etcd-s3-timeout"},
	{Name: "etcd-s3-retention", Kind: Int},
	{Name: "default-local-storage-path"},
	{Name: "disable", Kind: CommaList},
	{Name: "disable-scheduler", Kind: Bool},
	{Name: "disable-cloud-controller", Kind: Bool},
	{Name: "disable-kube-proxy", Kind: Bool},
	{Name: "disable-network-policy", Kind: Bool},
	{Name: "disable-helm-controller", Kind: Bool},
	{Name: "disable-agent", Kind: Bool},
	{Name: "disable-apiserver", Kind: Bool},
	{Name: "disable-controller-manager", Kind: Bool},
	{Name: "disable-etcd", Kind: Bool},
	{Name: "embedded-registry", Kind: Bool},
	{Name: "supervisor-metrics", Kind: Bool},
	{Name: "system-default-registry", Env: "K3S_SYSTEM_DEFAULT_REGISTRY"},
	{Name: "secrets-encryption", Kind: Bool},
	{Name: "secrets-encryption-provider"},
}

// Flags lists the flags of the command "server" or "agent".
func Flags(command string) []Flag {
	if command == "server" {
		return append(append([]Flag{}, shared...), serverOnly...)
	}
	return append(append([]Flag{}, shared...), agentOnly...)
}
