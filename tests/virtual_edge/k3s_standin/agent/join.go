package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k3sstandin/access"
	"k3sstandin/config"
	"k3sstandin/kubeapi"
	"k3sstandin/logs"
	"k3sstandin/pki"
	"k3sstandin/supervisor"
	"k3sstandin/token"
)

// Pauses between attempts, as in k3s.
const (
	connectPause = 2 * time.Second
	configPause  = 5 * time.Second
)

// paths knows where an agent keeps its files, as in k3s.
type paths struct{ dataDir, agent string }

func newPaths(dataDir string) paths {
	return paths{dataDir: dataDir, agent: filepath.Join(dataDir, "agent")}
}

func (p paths) in(elements ...string) string {
	return filepath.Join(append([]string{p.agent}, elements...)...)
}

// join gets the cluster's certificates and settings from the server. It tries until the server
// lets it in, and logs the reason each time, in k3s's words.
func join(ctx context.Context, node config.Node, identity Identity, paths paths) (supervisor.AgentConfig, error) {
	secret, err := token.Parse(node.Token)
	if err != nil {
		return supervisor.AgentConfig{}, err
	}
	joiner := &joiner{node: node, identity: identity, paths: paths}
	err = retry(ctx, connectPause, func() (err error) {
		joiner.server, err = access.Connect(ctx, node.ServerURL, secret)
		if err != nil {
			logs.Errorf("Failed to validate connection to cluster at %s: %v", node.ServerURL, err)
		}
		return err
	})
	if err != nil {
		return supervisor.AgentConfig{}, err
	}
	var cluster supervisor.AgentConfig
	err = retry(ctx, configPause, func() (err error) {
		if cluster, err = joiner.retrieve(ctx); err != nil {
			logs.Infof("Waiting to retrieve agent configuration; server is not ready: %v", err)
		}
		return err
	})
	return cluster, err
}

func retry(ctx context.Context, pause time.Duration, try func() error) error {
	for {
		if try() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

type joiner struct {
	node     config.Node
	identity Identity
	paths    paths
	server   *access.Server
}

func (j *joiner) retrieve(ctx context.Context) (supervisor.AgentConfig, error) {
	var cluster supervisor.AgentConfig
	data, err := j.get(ctx, "config")
	if err != nil {
		return cluster, fmt.Errorf("failed to retrieve configuration from server: %w", err)
	}
	if err := json.Unmarshal(data, &cluster); err != nil {
		return cluster, fmt.Errorf("failed to retrieve configuration from server: %w", err)
	}
	for _, name := range []string{"server-ca.crt", "client-ca.crt"} {
		data, err := j.get(ctx, name)
		if err != nil {
			return cluster, err
		}
		if err := pki.WriteFile(j.paths.in(name), data, 0o644); err != nil {
			return cluster, err
		}
	}
	for _, name := range []string{"serving-kubelet", "client-kubelet", "client-k3s-controller"} {
		if err := j.certificate(ctx, name); err != nil {
			return cluster, fmt.Errorf("%s: %w", j.paths.in(name+".crt"), err)
		}
	}
	kubeconfig, err := kubeapi.Kubeconfig(j.node.ServerURL, j.paths.in("server-ca.crt"),
		j.paths.in("client-kubelet.crt"), j.paths.in("client-kubelet.key"))
	if err != nil {
		return cluster, err
	}
	return cluster, kubeapi.WriteKubeconfig(j.paths.in("kubelet.kubeconfig"), kubeconfig, 0o600)
}

func (j *joiner) get(ctx context.Context, path string) ([]byte, error) {
	return j.server.Call(ctx, access.AsNode, http.MethodGet, supervisor.Prefix+path, j.headers(), nil)
}

// certificate has a key of this node signed; the key never leaves the node.
func (j *joiner) certificate(ctx context.Context, name string) error {
	key, err := pki.LoadKey(j.paths.in(name + ".key"))
	if err != nil {
		return err
	}
	request, err := pki.Request(key)
	if err != nil {
		return err
	}
	path := supervisor.Prefix + name + ".crt"
	data, err := j.server.Call(ctx, access.AsNode, http.MethodPost, path, j.headers(), request)
	var status *access.StatusError
	if errors.As(err, &status) && status.Code == http.StatusForbidden {
		return fmt.Errorf("Node password rejected, duplicate hostname or contents of '%s' may not match "+
			"server node-passwd entry, try enabling a unique node name with the --with-node-id flag", passwordFile)
	}
	if err != nil {
		return err
	}
	return pki.WriteFile(j.paths.in(name+".crt"), data, 0o644)
}

func (j *joiner) headers() map[string]string {
	return map[string]string{
		supervisor.NodeNameHeader:     j.identity.Name,
		supervisor.NodePasswordHeader: j.identity.Password,
		supervisor.NodeIPHeader:       strings.Join(j.node.IPs, ","),
	}
}

// folder makes a folder of the agent and returns its path.
func (p paths) folder(elements ...string) (string, error) {
	path := p.in(elements...)
	return path, os.MkdirAll(path, 0o755)
}
