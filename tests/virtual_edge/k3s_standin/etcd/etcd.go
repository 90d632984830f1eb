// Package etcd describes the member of etcd that runs in a server, and speaks with it. The member
// itself is a child process (package components), which alone links etcd.
package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Settings are what the child process is told, as JSON in its only argument.
type Settings struct {
	Folder string
	Name   string
	// Socket serves clients and PeerURL is empty for a member that stays alone: only root can enter
	// the folder, so the socket needs no certificates.
	Socket string
	// The rest is for a member that has others, or may get them.
	PeerURL        string
	ClientURLs     []string
	Control        string // socket on which Client speaks with the child
	InitialCluster string
	Existing       bool // join the initial cluster, do not found it
	Certificates   Certificates
}

// Certificates are PEM files.
type Certificates struct {
	ServerCA, ServerCert, ServerKey string
	PeerCA, PeerCert, PeerKey       string
}

// Tombstone is a file that says that this member was removed from its cluster.
func (s Settings) Tombstone() string { return filepath.Join(s.Folder, "tombstone") }

// Member is a member of the cluster. One that has not started yet has no name.
type Member struct {
	ID      uint64 `json:",string"`
	Name    string
	PeerURL string
	Learner bool
	Self    bool
}

// Node is the name of the node whose member this is: k3s appends eight digits to it.
func (m Member) Node() string {
	if end := strings.LastIndex(m.Name, "-"); end > 0 {
		return m.Name[:end]
	}
	return m.Name
}

// Host is the address of the member's machine.
func (m Member) Host() string {
	parsed, err := url.Parse(m.PeerURL)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

// InitialCluster words the members as etcd wants them, with the name of the one at peerURL filled in.
func InitialCluster(members []Member, name, peerURL string) string {
	var parts []string
	for _, member := range members {
		if member.PeerURL == peerURL {
			member.Name = name
		}
		parts = append(parts, member.Name+"="+member.PeerURL)
	}
	return strings.Join(parts, ",")
}

// Errors that callers tell apart, worded as in k3s and etcd.
var (
	ErrDuplicate = errors.New("duplicate node name found, please use a unique name for this node")
	ErrNotYet    = errors.New("etcd is not ready for this change")
)

// FindDuplicate reports whether another member has the node name of the one that wants to join.
func FindDuplicate(members []Member, name, peerURL string) error {
	for _, member := range members {
		if member.Name != "" && member.Name != name && member.Node() == (Member{Name: name}).Node() {
			return ErrDuplicate
		}
	}
	return nil
}

// Client speaks with the child process of this server.
type Client struct{ http *http.Client }

// NewClient makes a client for the socket Settings.Control.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &Client{http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: dial}}}
}

// Members lists the members as this one knows them.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	return c.call(ctx, http.MethodGet, "/members", nil)
}

// Add announces a member that will join as a learner, and returns all members.
func (c *Client) Add(ctx context.Context, name, peerURL string) ([]Member, error) {
	return c.call(ctx, http.MethodPost, "/members", Member{Name: name, PeerURL: peerURL})
}

// Remove removes a member; one that is not there is fine.
func (c *Client) Remove(ctx context.Context, name string) error {
	_, err := c.call(ctx, http.MethodDelete, "/members/"+url.PathEscape(name), nil)
	return err
}

func (c *Client) call(ctx context.Context, method, path string, body any) ([]Member, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://etcd"+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return Answer(response.StatusCode, text)
}

// Answer reads the answer of the child, or of a server that passed it on.
func Answer(code int, text []byte) ([]Member, error) {
	said := string(bytes.TrimSpace(text))
	switch code {
	case http.StatusOK:
		var members []Member
		return members, json.Unmarshal(text, &members)
	case http.StatusConflict:
		return nil, ErrDuplicate
	case http.StatusServiceUnavailable:
		return nil, fmt.Errorf("%w: %s", ErrNotYet, said)
	}
	return nil, fmt.Errorf("%d %s: %s", code, http.StatusText(code), said)
}

// Reply writes members or an error so that Answer reads it.
func Reply(w http.ResponseWriter, members []Member, err error) {
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(members)
	case errors.Is(err, ErrDuplicate):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, ErrNotYet):
		http.Error(w, strings.TrimPrefix(err.Error(), ErrNotYet.Error()+": "), http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
