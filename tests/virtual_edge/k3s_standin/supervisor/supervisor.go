// Package supervisor is what a k3s server answers on its one port (6443): a few paths of its
// own for joining nodes, everything else goes to kube-apiserver.
package supervisor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"k3sstandin/bootstrap"
	"k3sstandin/etcd"
	"k3sstandin/logs"
	"k3sstandin/nodepassword"
	"k3sstandin/pki"
)

// Headers that a joining node sends, and the port of the supervisor's paths.
const (
	Prefix             = "/v1-k3s/"
	NodeNameHeader     = "K3s-Node-Name"
	NodePasswordHeader = "K3s-Node-Password"
	NodeIPHeader       = "K3s-Node-Ip"
)

// AgentConfig is what an agent must know of the cluster.
type AgentConfig struct {
	ClusterCIDR   string
	ServiceCIDR   string
	ClusterDNS    string
	ClusterDomain string
	APIServiceIP  string
}

// Supervisor answers joining nodes.
type Supervisor struct {
	ServerCA *pki.Authority
	ClientCA *pki.Authority
	// IsNode and IsServer report whether a node or a server may join with a token's password.
	IsNode, IsServer func(password string) bool
	Agent            AgentConfig
	API              http.Handler // kube-apiserver
	// Ensure verifies or stores a node's password; nil as long as the API is not ready.
	Ensure func(ctx context.Context, node, password string) error
	// Ready reports whether the API answers.
	Ready func() bool
	// Bootstrap returns what another server needs of this one.
	Bootstrap func() (bootstrap.Files, error)
	// AddMember announces another server's member of etcd.
	AddMember func(ctx context.Context, wanted etcd.Member) ([]etcd.Member, error)
	// Rotate replaces the server token.
	Rotate func(ctx context.Context, token string) error
}

// Serve listens until the context ends.
func (s *Supervisor) Serve(ctx context.Context, listener net.Listener, certificate tls.Certificate) error {
	clients := x509.NewCertPool()
	clients.AddCert(s.ClientCA.Certificate)
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // handshakes of port probes
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{certificate},
			ClientAuth:   tls.RequestClientCert, // verified where it matters, see clientOf
			ClientCAs:    clients,
		},
	}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	err := server.ServeTLS(listener, "", "")
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *Supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/cacerts", func(w http.ResponseWriter, _ *http.Request) { plain(w, s.ServerCA.PEM) })
	mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { plain(w, []byte("pong")) })
	mux.Handle(Prefix, http.NotFoundHandler())
	mux.Handle(Prefix+"server-ca.crt", s.joining(func(w http.ResponseWriter, _ *http.Request) { plain(w, s.ServerCA.PEM) }))
	mux.Handle(Prefix+"client-ca.crt", s.joining(func(w http.ResponseWriter, _ *http.Request) { plain(w, s.ClientCA.PEM) }))
	mux.Handle(Prefix+"config", s.joining(s.config))
	mux.Handle(Prefix+"readyz", s.joining(s.readyz))
	mux.Handle(Prefix+"serving-kubelet.crt", s.joining(s.servingKubelet))
	mux.Handle(Prefix+"client-kubelet.crt", s.joining(s.clientKubelet))
	mux.Handle(Prefix+"client-k3s-controller.crt", s.joining(s.clientController))
	mux.Handle("GET "+Prefix+"server-bootstrap", s.forServers(s.bootstrap))
	mux.Handle("GET "+Prefix+"encrypt/status", s.forServers(s.encryption))
	mux.Handle("POST "+Prefix+"etcd-members", s.forServers(s.addMember))
	mux.Handle("PUT "+Prefix+"token", s.forServers(s.rotate))
	mux.Handle("/", s.API)
	return mux
}

// joining lets a request through that carries a join token (basic authentication as "node" or
// "server") or a kubelet's certificate.
func (s *Supervisor) joining(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, groups := clientOf(r, s.ClientCA); contains(groups, "system:nodes") {
			next(w, r)
			return
		}
		user, password, given := r.BasicAuth()
		if given && (user == "node" && s.IsNode(password) || user == "server" && s.IsServer(password)) {
			next(w, r)
			return
		}
		refuse(w, r, "Unauthorized", http.StatusUnauthorized)
	})
}

// forServers lets a request through that carries the server token.
func (s *Supervisor) forServers(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, given := r.BasicAuth()
		switch {
		case given && user == "server" && s.IsServer(password):
			next(w, r)
		case given && s.IsNode(password):
			refuse(w, r, "Forbidden", http.StatusForbidden)
		default:
			refuse(w, r, "Unauthorized", http.StatusUnauthorized)
		}
	})
}

func (s *Supervisor) bootstrap(w http.ResponseWriter, _ *http.Request) {
	files, err := s.Bootstrap()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(files)
}

// encryption says that secrets are stored as they are; k3s's answer has the same key.
func (s *Supervisor) encryption(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"enable": false})
}

func (s *Supervisor) addMember(w http.ResponseWriter, r *http.Request) {
	var wanted etcd.Member
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&wanted); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	members, err := s.AddMember(r.Context(), wanted)
	etcd.Reply(w, members, err)
}

func (s *Supervisor) rotate(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		NewToken string `json:"newToken"`
	}
	err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&wanted)
	if err == nil {
		err = s.Rotate(r.Context(), wanted.NewToken)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (s *Supervisor) config(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(s.Agent); err != nil {
		logs.Errorf("Failed to send the agent configuration: %v", err)
	}
}

func (s *Supervisor) readyz(w http.ResponseWriter, _ *http.Request) {
	if !s.Ready() {
		http.Error(w, "runtime core not ready", http.StatusServiceUnavailable)
		return
	}
	plain(w, []byte("ok"))
}

func (s *Supervisor) servingKubelet(w http.ResponseWriter, r *http.Request) {
	name, ok := s.node(w, r)
	if !ok {
		return
	}
	hosts := []string{name, "localhost", "127.0.0.1"}
	for _, ip := range strings.Split(r.Header.Get(NodeIPHeader), ",") {
		if ip == "" {
			continue
		}
		if net.ParseIP(ip) == nil {
			http.Error(w, "invalid node IP address "+ip, http.StatusBadRequest)
			return
		}
		hosts = append(hosts, ip)
	}
	s.sign(w, r, s.ServerCA, pki.Subject{Name: name, Server: true, Hosts: hosts})
}

func (s *Supervisor) clientKubelet(w http.ResponseWriter, r *http.Request) {
	if name, ok := s.node(w, r); ok {
		s.sign(w, r, s.ClientCA, pki.Subject{Name: "system:node:" + name, Groups: []string{"system:nodes"}})
	}
}

func (s *Supervisor) clientController(w http.ResponseWriter, r *http.Request) {
	s.sign(w, r, s.ClientCA, pki.Subject{Name: "system:k3s-controller"})
}

// node checks the node's name and password; it has answered when it returns false.
func (s *Supervisor) node(w http.ResponseWriter, r *http.Request) (string, bool) {
	name := strings.ToLower(r.Header.Get(NodeNameHeader))
	password := r.Header.Get(NodePasswordHeader)
	switch {
	case name == "":
		http.Error(w, "node name not set", http.StatusBadRequest)
		return "", false
	case password == "":
		http.Error(w, "node password not set", http.StatusBadRequest)
		return "", false
	case !s.Ready():
		http.Error(w, "runtime core not ready", http.StatusServiceUnavailable)
		return "", false
	}
	if user, groups := clientOf(r, s.ClientCA); contains(groups, "system:nodes") && user != "system:node:"+name {
		http.Error(w, "header node name does not match auth node name", http.StatusBadRequest)
		return "", false
	}
	err := s.Ensure(r.Context(), name, password)
	switch {
	case errors.Is(err, nodepassword.ErrVerify):
		refuse(w, r, err.Error(), http.StatusForbidden)
		return "", false
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return "", false
	}
	return name, true
}

func (s *Supervisor) sign(w http.ResponseWriter, r *http.Request, authority *pki.Authority, subject pki.Subject) {
	if r.Method != http.MethodPost {
		http.Error(w, "send a certificate signing request with POST", http.StatusMethodNotAllowed)
		return
	}
	der, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request, err := x509.ParseCertificateRequest(der)
	if err == nil {
		err = request.CheckSignature()
	}
	if err != nil {
		http.Error(w, "bad certificate signing request: "+err.Error(), http.StatusBadRequest)
		return
	}
	certificate, err := authority.Sign(subject, request.PublicKey)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	plain(w, certificate)
}

// refuse answers with an error that the log tells too, in the words of k3s.
func refuse(w http.ResponseWriter, r *http.Request, reason string, status int) {
	logs.Errorf("Sending HTTP %d response to %s: %s", status, r.RemoteAddr, reason)
	http.Error(w, reason, status)
}

func plain(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "text/plain")
	w.Write(data)
}

func contains(list []string, wanted string) bool {
	for _, item := range list {
		if item == wanted {
			return true
		}
	}
	return false
}
