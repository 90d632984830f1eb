// Package datastore reads and writes single keys of etcd through its JSON gateway
// (https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/), so that no etcd client is linked.
package datastore

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Config says where etcd is. An endpoint is http://, https:// or unix://PATH.
type Config struct {
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
}

// Client talks to the first endpoint that answers.
type Client struct {
	bases []string
	http  *http.Client
}

// New makes a client.
func New(config Config) (*Client, error) {
	client := &Client{http: &http.Client{Timeout: 10 * time.Second}}
	transport := &http.Transport{}
	client.http.Transport = transport
	for _, endpoint := range config.Endpoints {
		socket, isSocket := strings.CutPrefix(endpoint, "unix://")
		if !isSocket {
			client.bases = append(client.bases, strings.TrimRight(endpoint, "/"))
			continue
		}
		client.bases = append(client.bases, "http://localhost")
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	if config.CAFile == "" && config.CertFile == "" {
		return client, nil
	}
	transport.TLSClientConfig = &tls.Config{}
	if config.CAFile != "" {
		data, err := os.ReadFile(config.CAFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s holds no certificate", config.CAFile)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	if config.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(config.CertFile, config.KeyFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return client, nil
}

// Get returns the value of a key, or nil when there is none.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	var answer struct {
		Pairs []struct{ Value []byte } `json:"kvs"`
	}
	err := c.call(ctx, "/v3/kv/range", map[string]any{"key": []byte(key)}, &answer)
	if err != nil || len(answer.Pairs) == 0 {
		return nil, err
	}
	return answer.Pairs[0].Value, nil
}

// Put sets a key.
func (c *Client) Put(ctx context.Context, key string, value []byte) error {
	return c.call(ctx, "/v3/kv/put", map[string]any{"key": []byte(key), "value": value}, nil)
}

// Create sets a key that does not exist yet and reports whether it did.
func (c *Client) Create(ctx context.Context, key string, value []byte) (bool, error) {
	var answer struct{ Succeeded bool }
	err := c.call(ctx, "/v3/kv/txn", map[string]any{
		"compare": []map[string]any{{
			"target": "CREATE", "result": "EQUAL", "key": []byte(key), "create_revision": "0",
		}},
		"success": []map[string]any{{"request_put": map[string]any{"key": []byte(key), "value": value}}},
	}, &answer)
	return answer.Succeeded, err
}

func (c *Client) call(ctx context.Context, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var problems []error
	for _, base := range c.bases {
		answer, err := c.post(ctx, base+path, data)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(answer, into)
	}
	return errors.Join(problems...)
}

func (c *Client) post(ctx context.Context, url string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("etcd at %s: %s: %s", url, response.Status, bytes.TrimSpace(answer))
	}
	return answer, nil
}
