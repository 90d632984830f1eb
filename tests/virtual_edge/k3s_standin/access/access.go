// Package access is the way of a joining node to a server's supervisor: it checks whom it speaks
// with, presents the token, and words what goes wrong as k3s does.
package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k3sstandin/logs"
	"k3sstandin/token"
)

// Users of a token, see supervisor.
const (
	AsNode   = "node"
	AsServer = "server"
)

// Server is a server whose authority is known.
type Server struct {
	url      string
	password string
	client   *http.Client
}

// Connect fetches the cluster's CA and from then on trusts nothing else.
func Connect(ctx context.Context, url string, secret token.Token) (*Server, error) {
	insecure := &Server{url: url, client: &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}}
	ca, err := insecure.do(ctx, http.MethodGet, "/cacerts", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to get CA certs: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("failed to get CA certs: the answer holds no certificate")
	}
	verified := &Server{url: url, password: secret.Password, client: &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true},
	}}
	if _, err := verified.do(ctx, http.MethodGet, "/cacerts", nil, nil); err != nil {
		return nil, fmt.Errorf("CA cert validation failed: %w", err)
	}
	if err := secret.CheckCA(ca); err != nil {
		return nil, err
	}
	if secret.CAHash == "" {
		logs.Warnf("Cluster CA certificate is not trusted by the host CA bundle, but the token does not include a CA hash. " +
			"Use the full token from the server's node-token file to enable Cluster CA validation.")
	}
	return verified, nil
}

// Call asks the supervisor as one of the token's users; headers may be nil.
func (s *Server) Call(ctx context.Context, user, method, path string, headers map[string]string, body []byte) ([]byte, error) {
	return s.do(ctx, method, path, func(request *http.Request) {
		request.SetBasicAuth(user, s.password)
		for name, value := range headers {
			request.Header.Set(name, value)
		}
	}, body)
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	url, status string
	Code        int
	Text        string
}

func (e *StatusError) Error() string {
	if e.Text == "" || e.Text == http.StatusText(e.Code) {
		return e.url + ": " + e.status
	}
	return e.url + ": " + e.status + ": " + e.Text
}

func (s *Server) do(ctx context.Context, method, path string, prepare func(*http.Request), body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if prepare != nil {
		prepare(request)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, &StatusError{
			url: s.url + path, status: response.Status, Code: response.StatusCode,
			Text: strings.TrimSpace(string(data)),
		}
	}
	return data, nil
}
