package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k3sstandin/bootstrap"
	"k3sstandin/etcd"
	"k3sstandin/nodepassword"
	"k3sstandin/pki"
)

type cluster struct {
	folder             string
	serverCA, clientCA *pki.Authority
	supervisor         *Supervisor
	ready              bool
	passwords          map[string]string
	base               string
}

// newCluster serves a supervisor in front of a handler that plays kube-apiserver.
func newCluster(t *testing.T, api http.HandlerFunc) *cluster {
	t.Helper()
	c := &cluster{folder: t.TempDir(), ready: true, passwords: map[string]string{}}
	var err error
	if c.serverCA, err = pki.LoadAuthority(c.file("server-ca"), "server-ca"); err != nil {
		t.Fatal(err)
	}
	if c.clientCA, err = pki.LoadAuthority(c.file("client-ca"), "client-ca"); err != nil {
		t.Fatal(err)
	}
	proxyCA, err := pki.LoadAuthority(c.file("proxy-ca"), "proxy-ca")
	if err != nil {
		t.Fatal(err)
	}
	serving := c.issue(t, c.serverCA, "serving", pki.Subject{Name: "kube-apiserver", Server: true, Hosts: []string{"127.0.0.1"}})
	frontProxy := c.issue(t, proxyCA, "proxy", pki.Subject{Name: "system:auth-proxy"})

	backend := httptest.NewUnstartedServer(api)
	backend.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequestClientCert}
	backend.StartTLS()
	t.Cleanup(backend.Close)
	target, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.supervisor = &Supervisor{
		ServerCA: c.serverCA, ClientCA: c.clientCA,
		IsNode:   func(password string) bool { return password == "secret" || password == "agents" },
		IsServer: func(password string) bool { return password == "secret" },
		API:      APIProxy(target, c.serverCA, c.clientCA, frontProxy),
		Ready:    func() bool { return c.ready },
		Ensure: func(_ context.Context, node, password string) error {
			if known, present := c.passwords[node]; present && known != password {
				return fmt.Errorf("unable to verify: %w", nodepassword.ErrVerify)
			}
			c.passwords[node] = password
			return nil
		},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.base = "https://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.supervisor.Serve(ctx, listener, serving) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

func (c *cluster) file(name string) string { return filepath.Join(c.folder, name) }

func (c *cluster) issue(t *testing.T, ca *pki.Authority, name string, subject pki.Subject) tls.Certificate {
	t.Helper()
	if err := ca.Issue(c.file(name), subject); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(c.file(name)+".crt", c.file(name)+".key")
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func (c *cluster) tls(certificates ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(c.serverCA.Certificate)
	return &tls.Config{RootCAs: pool, Certificates: certificates}
}

func (c *cluster) do(t *testing.T, request *http.Request, certificates ...tls.Certificate) (int, string) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: c.tls(certificates...)}}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

func (c *cluster) get(t *testing.T, path string) *http.Request {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// join asks for a certificate as an agent does.
func (c *cluster) join(t *testing.T, kind, token, node, password string) (int, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.Request(key)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, c.base+Prefix+kind, bytes.NewReader(csr))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("node", token)
	request.Header.Set(NodeNameHeader, node)
	request.Header.Set(NodePasswordHeader, password)
	request.Header.Set(NodeIPHeader, "192.0.2.5")
	return c.do(t, request)
}

func certificateIn(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatalf("no certificate in %q", text)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func noAPI(w http.ResponseWriter, _ *http.Request) { http.Error(w, "unexpected", http.StatusTeapot) }

func TestAnyoneMayPingAndReadTheCA(t *testing.T) {
	c := newCluster(t, noAPI)
	if code, text := c.do(t, c.get(t, "/ping")); code != 200 || text != "pong" {
		t.Errorf("/ping: %d %q", code, text)
	}
	if code, text := c.do(t, c.get(t, "/cacerts")); code != 200 || text != string(c.serverCA.PEM) {
		t.Errorf("/cacerts: %d %q", code, text)
	}
}

func TestJoiningNeedsTheToken(t *testing.T) {
	c := newCluster(t, noAPI)
	for _, path := range []string{"config", "server-ca.crt", "client-ca.crt", "readyz", "client-kubelet.crt", "client-k3s-controller.crt"} {
		if code, _ := c.do(t, c.get(t, Prefix+path)); code != 401 {
			t.Errorf("%s without a token: %d", path, code)
		}
	}
	if code, _ := c.join(t, "client-kubelet.crt", "wrong", "board", "pw"); code != 401 {
		t.Errorf("wrong token: %d", code)
	}
	if code, _ := c.do(t, c.get(t, Prefix+"nothing")); code != 404 {
		t.Errorf("unknown path: %d", code)
	}
}

func TestOnlyTheServerTokenOpensWhatServersNeed(t *testing.T) {
	c := newCluster(t, noAPI)
	rotated := ""
	c.supervisor.Bootstrap = func() (bootstrap.Files, error) { return bootstrap.Files{"service.key": []byte("k")}, nil }
	c.supervisor.AddMember = func(_ context.Context, wanted etcd.Member) ([]etcd.Member, error) {
		return []etcd.Member{wanted}, nil
	}
	c.supervisor.Rotate = func(_ context.Context, token string) error {
		rotated = token
		return nil
	}
	for _, test := range []struct {
		method, path, body, user, password string
		code                               int
		answer                             string
	}{
		{"GET", "server-bootstrap", "", "server", "secret", 200, `{"service.key":"aw=="}`},
		{"GET", "server-bootstrap", "", "node", "agents", 403, "Forbidden"},
		{"GET", "server-bootstrap", "", "server", "agents", 403, "Forbidden"},
		{"GET", "server-bootstrap", "", "server", "wrong", 401, "Unauthorized"},
		{"GET", "encrypt/status", "", "server", "secret", 200, `{"enable":false}`},
		{"GET", "encrypt/status", "", "server", "wrong", 401, "Unauthorized"},
		{"POST", "etcd-members", `{"Name":"n-1"}`, "server", "secret", 200, `[{"ID":"0","Name":"n-1","PeerURL":"","Learner":false,"Self":false}]`},
		{"POST", "etcd-members", "{}", "node", "secret", 403, "Forbidden"},
		{"PUT", "token", `{"newToken":"next"}`, "server", "wrong", 401, "Unauthorized"},
		{"PUT", "token", `{"newToken":"next"}`, "server", "secret", 200, ""},
	} {
		request, err := http.NewRequest(test.method, c.base+Prefix+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth(test.user, test.password)
		if code, text := c.do(t, request); code != test.code || strings.TrimSpace(text) != test.answer {
			t.Errorf("%s %s as %s:%s: %d %q", test.method, test.path, test.user, test.password, code, text)
		}
	}
	if rotated != "next" {
		t.Errorf("rotated to %q", rotated)
	}
}

func TestANodeGetsItsCertificates(t *testing.T) {
	c := newCluster(t, noAPI)
	code, text := c.join(t, "client-kubelet.crt", "secret", "Board", "pw")
	if code != 200 {
		t.Fatalf("%d %q", code, text)
	}
	client := certificateIn(t, text)
	if client.Subject.CommonName != "system:node:board" || client.Subject.Organization[0] != "system:nodes" {
		t.Errorf("client: %v", client.Subject)
	}
	if err := client.CheckSignatureFrom(c.clientCA.Certificate); err != nil {
		t.Error(err)
	}
	code, text = c.join(t, "serving-kubelet.crt", "secret", "board", "pw")
	if code != 200 {
		t.Fatalf("%d %q", code, text)
	}
	serving := certificateIn(t, text)
	if err := errors.Join(serving.VerifyHostname("192.0.2.5"), serving.VerifyHostname("board"),
		serving.CheckSignatureFrom(c.serverCA.Certificate)); err != nil {
		t.Error(err)
	}
}

func TestASecondMachineUnderTheSameNameIsRefused(t *testing.T) {
	c := newCluster(t, noAPI)
	if code, text := c.join(t, "client-kubelet.crt", "secret", "board", "pw"); code != 200 {
		t.Fatalf("%d %q", code, text)
	}
	if code, _ := c.join(t, "client-kubelet.crt", "secret", "board", "other"); code != 403 {
		t.Errorf("got %d", code)
	}
	if code, _ := c.join(t, "client-kubelet.crt", "secret", "", "pw"); code != 400 {
		t.Errorf("no name: got %d", code)
	}
	c.ready = false
	if code, _ := c.join(t, "client-kubelet.crt", "secret", "board", "pw"); code != 503 {
		t.Errorf("not ready: got %d", code)
	}
}

func TestTheProxyNamesClientsWithACertificateAndNobodyElse(t *testing.T) {
	c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "user=%s groups=%v token=%s proxied=%v", r.Header.Get("X-Remote-User"),
			r.Header["X-Remote-Group"], r.Header.Get("Authorization"), len(r.TLS.PeerCertificates) > 0)
	})
	admin := c.issue(t, c.clientCA, "admin", pki.Subject{Name: "system:admin", Groups: []string{"system:masters"}})
	forged := c.issue(t, c.serverCA, "forged", pki.Subject{Name: "system:admin", Groups: []string{"system:masters"}})
	claim := c.get(t, "/api")
	claim.Header.Set("X-Remote-User", "system:admin")
	claim.Header.Set("X-Remote-Group", "system:masters")
	claim.Header.Set("Authorization", "Bearer t")
	for _, test := range []struct {
		request      *http.Request
		certificates []tls.Certificate
		want         string
	}{
		{c.get(t, "/api"), []tls.Certificate{admin}, "user=system:admin groups=[system:masters] token= proxied=true"},
		{c.get(t, "/api"), []tls.Certificate{forged}, "user= groups=[] token= proxied=false"},
		{claim, nil, "user= groups=[] token=Bearer t proxied=false"},
	} {
		if _, got := c.do(t, test.request, test.certificates...); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestWatchesStream(t *testing.T) {
	release := make(chan struct{})
	c := newCluster(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "first")
		w.(http.Flusher).Flush()
		<-release
	})
	defer close(release)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.tls()}}
	response, err := client.Do(c.get(t, "/api/v1/pods?watch=1"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(response.Body).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		if text != "first\n" {
			t.Errorf("got %q", text)
		}
	case <-time.After(5 * time.Second):
		t.Error("the first event waits for the end of the stream")
	}
}

func TestUpgradesPass(t *testing.T) {
	c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "SPDY/3.1" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		conn, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(buffer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
		buffer.Flush()
		io.Copy(conn, buffer) // echoes
	})
	conn, err := tls.Dial("tcp", strings.TrimPrefix(c.base, "https://"), c.tls())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(conn, "POST /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != 101 {
		t.Fatalf("%v, %v", response, err)
	}
	fmt.Fprint(conn, "hello\n")
	if text, err := reader.ReadString('\n'); err != nil || text != "hello\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestAnAPIThatIsDownIsUnavailable(t *testing.T) {
	c := newCluster(t, noAPI)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := &url.URL{Scheme: "https", Host: listener.Addr().String()}
	listener.Close()
	recorder := httptest.NewRecorder()
	APIProxy(closed, c.serverCA, c.clientCA, tls.Certificate{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/readyz", nil))
	if recorder.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d", recorder.Code)
	}
}
