package agent

import (
	"context"
	"net/http"
	"os"
	goruntime "runtime"
	"strings"
	"time"

	"k3sstandin/config"
	"k3sstandin/kubeapi"
	"k3sstandin/logs"
	"k3sstandin/release"
)

// A light node joins as any other does - token, authority, node password, certificates - and is a
// node of the cluster that reports itself Ready, but it runs neither containerd nor kubelet, so it
// takes a hundredth of their memory and no pod. Its taint keeps pods away. It is for clusters with
// more boards than one machine can carry: what Ansible does on them is the same.

const lightTaint = "rocknpu.edge/light"

// runLight registers the node and then keeps its lease.
func runLight(ctx context.Context, node config.Node, identity Identity, paths paths) error {
	api, err := kubeapi.New(node.ServerURL, paths.in("server-ca.crt"),
		paths.in("client-kubelet.crt"), paths.in("client-kubelet.key"))
	if err != nil {
		return err
	}
	name := strings.ToLower(identity.Name)
	err = api.Create(ctx, "/api/v1/nodes", lightNode(name, node))
	if err != nil && !kubeapi.IsCode(err, http.StatusConflict) {
		return err
	}
	if err := reportLight(ctx, api, name, node); err != nil {
		return err
	}
	logs.Infof("Light node %s: no containerd, no kubelet, no pods", name)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(leasePause):
			}
			if err := reportLight(ctx, api, name, node); err != nil && ctx.Err() == nil {
				logs.Errorf("Failed to report node %s: %v", name, err)
			}
		}
	}()
	return nil
}

// A lease that is not renewed for 40 s makes a node NotReady.
const leasePause = 10 * time.Second

func lightNode(name string, node config.Node) map[string]any {
	labels := map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": goruntime.GOARCH,
	}
	for _, label := range node.Labels {
		key, value, _ := strings.Cut(label, "=")
		labels[key] = value
	}
	taints := []map[string]string{{"key": lightTaint, "effect": "NoSchedule"}}
	for _, text := range node.Taints {
		pair, effect, _ := strings.Cut(text, ":")
		key, value, _ := strings.Cut(pair, "=")
		taints = append(taints, map[string]string{"key": key, "value": value, "effect": effect})
	}
	return map[string]any{
		"metadata": map[string]any{"name": name, "labels": labels},
		"spec":     map[string]any{"taints": taints},
	}
}

func reportLight(ctx context.Context, api *kubeapi.Client, name string, node config.Node) error {
	now := time.Now().UTC()
	addresses := []map[string]string{{"type": "Hostname", "address": name}}
	for _, ip := range node.IPs {
		addresses = append(addresses, map[string]string{"type": "InternalIP", "address": ip})
	}
	host, _ := os.Hostname()
	err := api.PatchLists(ctx, kubeapi.NodePath(name)+"/status", map[string]any{"status": map[string]any{
		"addresses": addresses,
		"conditions": []map[string]string{{
			"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "light node of the stand-in on " + host,
			"lastHeartbeatTime": now.Format(time.RFC3339),
		}},
		"nodeInfo": map[string]string{
			"kubeletVersion": release.Version, "operatingSystem": "linux", "architecture": goruntime.GOARCH,
			"containerRuntimeVersion": "none://0", "osImage": "light node", "kernelVersion": "", "kubeProxyVersion": "",
			"machineID": "", "systemUUID": "", "bootID": "",
		},
	}})
	if err != nil {
		return err
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	spec := map[string]any{
		"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now.Format("2006-01-02T15:04:05.000000Z07:00"),
	}
	err = api.Patch(ctx, leases+"/"+name, map[string]any{"spec": spec})
	if kubeapi.IsCode(err, http.StatusNotFound) {
		return api.Create(ctx, leases, map[string]any{"metadata": map[string]any{"name": name}, "spec": spec})
	}
	return err
}
