package agent

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"k3sstandin/access"
	"k3sstandin/config"
	"k3sstandin/token"
)

func testJoiner(t *testing.T, handler http.HandlerFunc) *joiner {
	t.Helper()
	var ca []byte
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cacerts" {
			w.Write(ca)
			return
		}
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	connected, err := access.Connect(context.Background(), server.URL, token.Token{Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	return &joiner{
		node:     config.Node{ServerURL: server.URL, IPs: []string{"192.0.2.5"}},
		identity: Identity{Name: "board", Password: "pw"},
		paths:    newPaths(filepath.Join(t.TempDir(), "k3s")),
		server:   connected,
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
