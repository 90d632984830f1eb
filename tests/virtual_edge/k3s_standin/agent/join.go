package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	joiner := &joiner{node: node, identity: identity, paths: paths, secret: secret}
	err = retry(ctx, connectPause, func() error {
		err := joiner.connect(ctx)
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
	secret   token.Token
	client   *http.Client
}

// connect fetches the cluster's CA and from then on trusts nothing else.
func (j *joiner) connect(ctx context.Context) error {
	insecure := &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	ca, err := fetch(ctx, insecure, http.MethodGet, j.node.ServerURL+"/cacerts", nil, nil)
	if err != nil {
		return fmt.Errorf("failed to get CA certs: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return errors.New("failed to get CA certs: the answer holds no certificate")
	}
	verified := &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true},
	}
	if _, err := fetch(ctx, verified, http.MethodGet, j.node.ServerURL+"/cacerts", nil, nil); err != nil {
		return fmt.Errorf("CA cert validation failed: %w", err)
	}
	if err := j.secret.CheckCA(ca); err != nil {
		return err
	}
	if j.secret.CAHash == "" {
		logs.Warnf("Cluster CA certificate is not trusted by the host CA bundle, but the token does not include a CA hash. " +
			"Use the full token from the server's node-token file to enable Cluster CA validation.")
	}
	j.client = verified
	return nil
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
	return fetch(ctx, j.client, http.MethodGet, j.node.ServerURL+supervisor.Prefix+path, j.authorize, nil)
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
	url := j.node.ServerURL + supervisor.Prefix + name + ".crt"
	data, err := fetch(ctx, j.client, http.MethodPost, url, j.authorize, request)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusForbidden {
		return fmt.Errorf("Node password rejected, duplicate hostname or contents of '%s' may not match "+
			"server node-passwd entry, try enabling a unique node name with the --with-node-id flag", passwordFile)
	}
	if err != nil {
		return err
	}
	return pki.WriteFile(j.paths.in(name+".crt"), data, 0o644)
}

func (j *joiner) authorize(request *http.Request) {
	request.SetBasicAuth("node", j.secret.Password)
	request.Header.Set(supervisor.NodeNameHeader, j.identity.Name)
	request.Header.Set(supervisor.NodePasswordHeader, j.identity.Password)
	request.Header.Set(supervisor.NodeIPHeader, strings.Join(j.node.IPs, ","))
}

type statusError struct {
	url, status, text string
	code              int
}

func (e *statusError) Error() string {
	if e.text == "" || e.text == http.StatusText(e.code) {
		return e.url + ": " + e.status
	}
	return e.url + ": " + e.status + ": " + e.text
}

func fetch(ctx context.Context, client *http.Client, method, url string, prepare func(*http.Request), body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if prepare != nil {
		prepare(request)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, &statusError{url: url, status: response.Status, code: response.StatusCode,
			text: strings.TrimSpace(string(data))}
	}
	return data, nil
}

// folder makes a folder of the agent and returns its path.
func (p paths) folder(elements ...string) (string, error) {
	path := p.in(elements...)
	return path, os.MkdirAll(path, 0o755)
}
