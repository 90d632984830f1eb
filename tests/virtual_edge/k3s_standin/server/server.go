// Package server runs a k3s server: the control plane, the supervisor in front of it and the
// node of this machine.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"k3sstandin/agent"
	"k3sstandin/bootstrap"
	"k3sstandin/config"
	"k3sstandin/kubeapi"
	"k3sstandin/logs"
	"k3sstandin/nodepassword"
	"k3sstandin/process"
	"k3sstandin/sdnotify"
	"k3sstandin/supervisor"
)

// Run starts everything and returns when the context ends or a component fails.
func Run(ctx context.Context, settings config.Server, notifier sdnotify.Notifier) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	paths := newPaths(settings.Node.DataDir)
	if _, err := agent.UnpackPrograms(settings.Node.DataDir); err != nil {
		return err
	}
	identity, err := agent.LoadIdentity(&settings.Node)
	if err != nil {
		return err
	}
	store, err := chooseStore(settings, paths)
	if err != nil {
		return preparing(err)
	}
	password, err := serverPassword(settings.Node.Token, paths)
	if err != nil {
		return preparing(err)
	}
	if err := takeOver(ctx, store, settings, password, paths); err != nil {
		return preparing(err)
	}
	certificates, err := issueCertificates(settings, paths)
	if err != nil {
		return preparing(err)
	}
	tokens, err := newTokens(settings, password, paths, certificates.serverCA.PEM)
	if err != nil {
		return preparing(err)
	}
	vault, err := openVault(store, paths)
	if err != nil {
		return preparing(err)
	}
	// The port first: when something else has it, nothing has been started yet.
	address := net.JoinHostPort(settings.BindAddress, strconv.Itoa(settings.Port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}

	components := process.NewGroup()
	defer components.Stop(stopPatience)
	defer listener.Close()
	api, err := adminClient(settings, paths)
	if err != nil {
		return err
	}
	var ready atomic.Bool
	serving := make(chan error, 1)
	go func() {
		serving <- (&supervisor.Supervisor{
			ServerCA: certificates.serverCA,
			ClientCA: certificates.clientCA,
			IsNode:   tokens.isNode,
			IsServer: tokens.isServer,
			Agent:    agentConfig(settings),
			API: supervisor.APIProxy(&url.URL{Scheme: "https", Host: apiServerAddress(settings)},
				certificates.serverCA, certificates.clientCA, certificates.frontProxy),
			Ensure: func(ctx context.Context, node, password string) error {
				return nodepassword.Ensure(ctx, api, node, password)
			},
			Ready:     ready.Load,
			Bootstrap: func() (bootstrap.Files, error) { return bootstrap.Read(paths.in("tls")) },
			AddMember: store.addMember,
			Rotate: func(ctx context.Context, token string) error {
				return tokens.rotate(token, func(password string) error { return vault.save(ctx, password) })
			},
		}).Serve(ctx, listener, certificates.serving)
	}()
	logs.Infof("Server listening on %s", address)

	failed := make(chan error, 1)
	go func() {
		failed <- func() error {
			if err := store.start(ctx, components); err != nil {
				return err
			}
			if err := patiently(ctx, func() error { return vault.reconcile(ctx, password) }); err != nil {
				return preparing(err)
			}
			if err := startAPIServer(components, settings, paths, store); err != nil {
				return err
			}
			if err := waitForAPI(ctx, api); err != nil {
				return err
			}
			logs.Infof("Kube API server is now running")
			if err := startControllers(components, settings, paths, store); err != nil {
				return err
			}
			if err := writeKubeconfig(settings, paths); err != nil {
				return err
			}
			if err := prepareCluster(ctx, api); err != nil {
				return err
			}
			ready.Store(true)
			go (&nodeKeeper{api: api, self: identity.Name, store: store}).follow(ctx)
			node := settings.Node
			node.ServerURL, node.Token = localURL(settings), tokens.serverToken()
			if err := agent.Start(ctx, node, identity, components); err != nil {
				return err
			}
			return notifier.Send("READY=1", "STATUS=stand-in server is running")
		}()
	}()

	for {
		select {
		case <-ctx.Done():
			notifier.Send("STOPPING=1")
			logs.Infof("Shutdown request received")
			return nil
		case err := <-components.Failed():
			return err
		case err := <-serving:
			if ctx.Err() == nil {
				return fmt.Errorf("supervisor: %w", err)
			}
		case err := <-failed:
			if err != nil && ctx.Err() == nil {
				return err
			}
			failed = nil
		}
	}
}

func preparing(err error) error { return fmt.Errorf("preparing server: %w", err) }

// takeOver gets the authorities of a cluster that is there already.
func takeOver(ctx context.Context, store *store, settings config.Server, password string, paths paths) error {
	if store.joining {
		return store.joinCluster(ctx, settings, paths)
	}
	if !store.external {
		return nil
	}
	vault, err := openVault(store, paths)
	if err != nil {
		return err
	}
	found, err := vault.load(ctx, password)
	if found {
		logs.Infof("Certificates of the cluster taken over from its data store")
	}
	return err
}

// patiently tries again what fails because etcd has just started; another token is another matter.
func patiently(ctx context.Context, try func() error) error {
	var err error
	for range 20 {
		if err = try(); err == nil || errors.Is(err, bootstrap.ErrOtherToken) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	return err
}

func agentConfig(settings config.Server) supervisor.AgentConfig {
	return supervisor.AgentConfig{
		ClusterCIDR:   settings.ClusterCIDR,
		ServiceCIDR:   settings.ServiceCIDR,
		ClusterDNS:    settings.ClusterDNS,
		ClusterDomain: settings.ClusterDomain,
		APIServiceIP:  settings.APIServiceIP(),
	}
}

// stopPatience keeps a stop below five seconds.
const stopPatience = 4 * time.Second

func adminClient(settings config.Server, paths paths) (*kubeapi.Client, error) {
	return kubeapi.New("https://"+apiServerAddress(settings), paths.tls("server-ca.crt"),
		paths.tls("client-admin.crt"), paths.tls("client-admin.key"))
}

func waitForAPI(ctx context.Context, api *kubeapi.Client) error {
	for {
		err := api.Get(ctx, "/readyz", nil)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// prepareCluster makes what the stand-in itself needs in the API.
func prepareCluster(ctx context.Context, api *kubeapi.Client) error {
	const group = "/apis/rbac.authorization.k8s.io/v1/"
	const name = "system:k3s-controller"
	objects := map[string]any{
		group + "clusterroles": map[string]any{
			"metadata": map[string]any{"name": name},
			"rules": []map[string]any{{
				"apiGroups": []string{""},
				"resources": []string{"nodes"},
				"verbs":     []string{"get", "list", "watch"},
			}},
		},
		group + "clusterrolebindings": map[string]any{
			"metadata": map[string]any{"name": name},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
			"subjects": []map[string]any{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}},
		},
	}
	for path, object := range objects {
		err := api.Create(ctx, path, object)
		if err != nil && !kubeapi.IsCode(err, http.StatusConflict) {
			return fmt.Errorf("create %s in the API: %w", name, err)
		}
	}
	return nil
}

// localURL is the supervisor as seen from this machine.
func localURL(settings config.Server) string {
	host := settings.BindAddress
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(settings.Port))
}

func loadPair(base string) (tls.Certificate, error) {
	return tls.LoadX509KeyPair(base+".crt", base+".key")
}
