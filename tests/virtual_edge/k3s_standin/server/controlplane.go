package server

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"k3sstandin/config"
	"k3sstandin/process"
)

// apiServerAddress is where kube-apiserver listens, for the supervisor and this machine only.
// The port is the one that k3s uses.
func apiServerAddress(settings config.Server) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(settings.Port+1))
}

func startAPIServer(components *process.Group, settings config.Server, paths paths, store *store) error {
	issuer := "https://kubernetes.default.svc." + settings.ClusterDomain
	own := map[string]string{
		"advertise-address":                  settings.AdvertiseAddress,
		"allow-privileged":                   "true",
		"anonymous-auth":                     "false",
		"api-audiences":                      issuer + ",k3s",
		"authorization-mode":                 "Node,RBAC",
		"bind-address":                       "127.0.0.1",
		"client-ca-file":                     paths.tls("client-ca.crt"),
		"enable-admission-plugins":           "NodeRestriction",
		"enable-aggregator-routing":          "true",
		"kubelet-certificate-authority":      paths.tls("server-ca.crt"),
		"kubelet-client-certificate":         paths.tls("client-kube-apiserver.crt"),
		"kubelet-client-key":                 paths.tls("client-kube-apiserver.key"),
		"kubelet-preferred-address-types":    "InternalIP,ExternalIP,Hostname",
		"profiling":                          "false",
		"proxy-client-cert-file":             paths.tls("client-auth-proxy.crt"),
		"proxy-client-key-file":              paths.tls("client-auth-proxy.key"),
		"requestheader-allowed-names":        "system:auth-proxy",
		"requestheader-client-ca-file":       paths.tls("request-header-ca.crt"),
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"requestheader-group-headers":        "X-Remote-Group",
		"requestheader-username-headers":     "X-Remote-User",
		"secure-port":                        strconv.Itoa(settings.Port + 1),
		"service-account-issuer":             issuer,
		"service-account-key-file":           paths.tls("service.key"),
		"service-account-signing-key-file":   paths.tls("service.key"),
		"service-cluster-ip-range":           settings.ServiceCIDR,
		"service-node-port-range":            settings.NodePortRange,
		"tls-cert-file":                      paths.tls("serving-kube-apiserver.crt"),
		"tls-private-key-file":               paths.tls("serving-kube-apiserver.key"),
	}
	maps.Copy(own, store.arguments())
	return components.Add(process.Component("kube-apiserver",
		config.Arguments(own, settings.APIServerArgs), nil))
}

// startControllers starts what needs a ready API. A server that is alone elects no leader: after a
// restart nobody should wait for an old lease to run out.
func startControllers(components *process.Group, settings config.Server, paths paths, store *store) error {
	elect := strconv.FormatBool(store.shared())
	for name, user := range map[string]string{"controller": "client-controller", "scheduler": "client-scheduler"} {
		if err := writeComponentKubeconfig(settings, paths, paths.cred(name+".kubeconfig"), user); err != nil {
			return err
		}
	}
	controller := paths.cred("controller.kubeconfig")
	own := map[string]string{
		"allocate-node-cidrs":       "true",
		"authentication-kubeconfig": controller,
		"authorization-kubeconfig":  controller,
		"bind-address":              "127.0.0.1",
		"cluster-cidr":              settings.ClusterCIDR,
		"cluster-signing-kube-apiserver-client-cert-file": paths.tls("client-ca.crt"),
		"cluster-signing-kube-apiserver-client-key-file":  paths.tls("client-ca.key"),
		"cluster-signing-kubelet-client-cert-file":        paths.tls("client-ca.crt"),
		"cluster-signing-kubelet-client-key-file":         paths.tls("client-ca.key"),
		"cluster-signing-kubelet-serving-cert-file":       paths.tls("server-ca.crt"),
		"cluster-signing-kubelet-serving-key-file":        paths.tls("server-ca.key"),
		"cluster-signing-legacy-unknown-cert-file":        paths.tls("server-ca.crt"),
		"cluster-signing-legacy-unknown-key-file":         paths.tls("server-ca.key"),
		"configure-cloud-routes":                          "false",
		"kubeconfig":                                      controller,
		"leader-elect":                                    elect,
		"profiling":                                       "false",
		"root-ca-file":                                    paths.tls("server-ca.crt"),
		"service-account-private-key-file":                paths.tls("service.key"),
		"service-cluster-ip-range":                        settings.ServiceCIDR,
		"use-service-account-credentials":                 "true",
	}
	err := components.Add(process.Component("kube-controller-manager",
		config.Arguments(own, settings.ControllerArgs), nil))
	if err != nil {
		return err
	}
	scheduler := paths.cred("scheduler.kubeconfig")
	own = map[string]string{
		"authentication-kubeconfig": scheduler,
		"authorization-kubeconfig":  scheduler,
		"bind-address":              "127.0.0.1",
		"kubeconfig":                scheduler,
		"leader-elect":              elect,
		"profiling":                 "false",
	}
	return components.Add(process.Component("kube-scheduler",
		config.Arguments(own, settings.SchedulerArgs), nil))
}

func writeComponentKubeconfig(settings config.Server, paths paths, file, user string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return kubeconfigFromFiles("https://"+apiServerAddress(settings), paths.tls("server-ca.crt"),
		paths.tls(user+".crt"), paths.tls(user+".key"), file, 0o600)
}
