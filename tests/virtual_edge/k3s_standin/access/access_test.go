package access

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k3sstandin/token"
)

func serve(t *testing.T, handler http.HandlerFunc) (*httptest.Server, []byte) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func TestTheTokenIsPresentedToTheClusterThatItNames(t *testing.T) {
	var ca []byte
	var seen string
	server, ca := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cacerts" {
			w.Write(ca)
			return
		}
		user, password, _ := r.BasicAuth()
		seen = user + ":" + password + " " + r.Header.Get("X")
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
	})
	secret, err := token.Parse(token.Format(ca, "server", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	connected, err := Connect(ctx, server.URL, secret)
	if err != nil {
		t.Fatal(err)
	}
	_, err = connected.Call(ctx, AsNode, http.MethodGet, "/v1-k3s/config", map[string]string{"X": "y"}, nil)
	if err == nil || err.Error() != server.URL+"/v1-k3s/config: 401 Unauthorized" {
		t.Errorf("got %v", err)
	}
	if seen != "node:secret y" {
		t.Errorf("seen %q", seen)
	}
	secret.CAHash = strings.Repeat("0", 64)
	_, err = Connect(ctx, server.URL, secret)
	if err == nil || !strings.HasPrefix(err.Error(), "token CA hash does not match the Cluster CA certificate hash") {
		t.Errorf("got %v", err)
	}
}

func TestAnUnreachableServerIsWordedAsInK3s(t *testing.T) {
	_, err := Connect(context.Background(), "https://127.0.0.1:1", token.Token{Password: "secret"})
	if err == nil || !strings.HasPrefix(err.Error(), "failed to get CA certs: ") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatIsNoK3sIsNotTrusted(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) })
	_, err := Connect(context.Background(), server.URL, token.Token{Password: "secret"})
	if err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("got %v", err)
	}
}
