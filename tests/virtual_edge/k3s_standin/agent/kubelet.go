package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"k3sstandin/config"
	"k3sstandin/pki"
	"k3sstandin/process"
	"k3sstandin/supervisor"
)

// startKubelet runs kubelet on the configuration folder that k3s has (since 1.32), so that
// drop-ins of the user work the same.
func startKubelet(components *process.Group, node config.Node, cluster supervisor.AgentConfig, paths paths, programs string) error {
	folder, err := paths.folder("etc", "kubelet.conf.d")
	if err != nil {
		return err
	}
	manifests, err := paths.folder("pod-manifests")
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(kubeletConfiguration(node, cluster, paths, manifests), "", "  ")
	if err != nil {
		return err
	}
	file := paths.in("etc", "kubelet.conf.d", "00-k3s-defaults.conf")
	if err := pki.WriteFile(file, append(text, '\n'), 0o600); err != nil {
		return err
	}
	own := map[string]string{
		"config-dir":        folder,
		"hostname-override": node.Name,
		"kubeconfig":        paths.in("kubelet.kubeconfig"),
		"node-ip":           strings.Join(node.IPs, ","),
	}
	if len(node.Labels) > 0 {
		own["node-labels"] = strings.Join(node.Labels, ",")
	}
	if len(node.Taints) > 0 {
		own["register-with-taints"] = strings.Join(node.Taints, ",")
	}
	return components.Add(process.Component("kubelet",
		config.Arguments(own, node.KubeletArgs), searchPath(programs)))
}

func kubeletConfiguration(node config.Node, cluster supervisor.AgentConfig, paths paths, manifests string) map[string]any {
	configuration := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": paths.in("client-ca.crt")},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"cgroupDriver":             "cgroupfs",
		"clusterDNS":               []string{cluster.ClusterDNS},
		"clusterDomain":            cluster.ClusterDomain,
		"containerRuntimeEndpoint": "unix://" + RuntimeSocket,
		"evictionHard":             map[string]string{"imagefs.available": "5%", "nodefs.available": "5%"},
		"failSwapOn":               false,
		"serializeImagePulls":      false,
		"staticPodPath":            manifests,
		"tlsCertFile":              paths.in("serving-kubelet.crt"),
		"tlsPrivateKeyFile":        paths.in("serving-kubelet.key"),
	}
	if node.ResolvConf != "" {
		configuration["resolvConf"] = node.ResolvConf
	}
	return configuration
}

// waitForKubelet returns when kubelet says that it is healthy.
func waitForKubelet(ctx context.Context) error {
	client := &http.Client{Timeout: 5 * time.Second}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:10248/healthz", nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}
