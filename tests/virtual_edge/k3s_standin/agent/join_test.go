package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"k3sstandin/config"
	"k3sstandin/token"
)

func testJoiner(t *testing.T, handler http.HandlerFunc) *joiner {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return &joiner{
		node:     config.Node{ServerURL: server.URL, IPs: []string{"192.0.2.5"}},
		identity: Identity{Name: "board", Password: "pw"},
		paths:    newPaths(filepath.Join(t.TempDir(), "k3s")),
		secret:   token.Token{Password: "secret"},
		client:   server.Client(),
	}
}

func TestAForbiddenCertificateIsWordedAsInK3s(t *testing.T) {
	j := testJoiner(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".crt") && r.Method == http.MethodPost {
			http.Error(w, "unable to verify", http.StatusForbidden)
			return
		}
		w.Write([]byte("{}"))
	})
	_, err := j.retrieve(context.Background())
	want := "Node password rejected, duplicate hostname or contents of '/etc/rancher/node/password' may not match " +
		"server node-passwd entry, try enabling a unique node name with the --with-node-id flag"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

func TestAWrongTokenIsWordedAsInK3s(t *testing.T) {
	j := testJoiner(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
	})
	_, err := j.retrieve(context.Background())
	want := "failed to retrieve configuration from server: " + j.node.ServerURL + "/v1-k3s/config: 401 Unauthorized"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the token is in the message")
	}
}

func TestAnUnreachableServerIsWordedAsInK3s(t *testing.T) {
	j := testJoiner(t, func(http.ResponseWriter, *http.Request) {})
	j.node.ServerURL = "https://127.0.0.1:1"
	err := j.connect(context.Background())
	if err == nil || !strings.HasPrefix(err.Error(), "failed to get CA certs: ") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatIsNoK3sIsNotTrusted(t *testing.T) {
	j := testJoiner(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) })
	if err := j.connect(context.Background()); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("got %v", err)
	}
}
