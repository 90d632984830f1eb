// Package kubeapi is a small client of the Kubernetes API: JSON over HTTPS with a client
// certificate. It knows no types, so that its users need not link Kubernetes.
package kubeapi

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
	"time"
)

// Client talks to one API server.
type Client struct {
	base string
	http *http.Client
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Code int
	Text string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Code, http.StatusText(e.Code), e.Text)
}

// IsCode reports whether an error is an answer with this HTTP status.
func IsCode(err error, code int) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code == code
}

// New makes a client from an address and PEM files.
func New(base, caFile, certFile, keyFile string) (*Client, error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}},
		TLSHandshakeTimeout: 10 * time.Second,
	}
	return &Client{base: base, http: &http.Client{Transport: transport}}, nil
}

// Get reads an object or a list into a value; a nil value discards it.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, "", nil, into)
}

// Create posts an object to its collection.
func (c *Client) Create(ctx context.Context, path string, object any) error {
	return c.do(ctx, http.MethodPost, path, "application/json", object, nil)
}

// Patch merges a patch into an object (RFC 7386).
func (c *Client) Patch(ctx context.Context, path string, patch any) error {
	return c.do(ctx, http.MethodPatch, path, "application/merge-patch+json", patch, nil)
}

// PatchLists merges a patch into an object, lists by the keys of their elements (strategic merge).
func (c *Client) PatchLists(ctx context.Context, path string, patch any) error {
	return c.do(ctx, http.MethodPatch, path, "application/strategic-merge-patch+json", patch, nil)
}

// Delete removes an object.
func (c *Client) Delete(ctx context.Context, path string) error {
	return c.do(ctx, http.MethodDelete, path, "", nil, nil)
}

const requestTimeout = 15 * time.Second

func (c *Client) do(ctx context.Context, method, path, contentType string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := c.open(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if into == nil {
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(into)
}

func (c *Client) open(ctx context.Context, method, path, contentType string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return nil, &StatusError{Code: response.StatusCode, Text: string(bytes.TrimSpace(text))}
	}
	return response, nil
}

// Event is one change that a watch delivers.
type Event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// Watch opens path (a list with watch=1) and calls handle for each event until the stream or
// the context ends.
func (c *Client) Watch(ctx context.Context, path string, handle func(Event)) error {
	response, err := c.open(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	for {
		var event Event
		if err := decoder.Decode(&event); err != nil {
			return err
		}
		handle(event)
	}
}
