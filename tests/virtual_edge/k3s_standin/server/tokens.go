package server

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"k3sstandin/config"
	"k3sstandin/pki"
	"k3sstandin/token"
)

// tokens are the passwords of the server's tokens. One given as agent-token lets agents join, the
// server's own lets everybody.
type tokens struct {
	paths  paths
	ca     []byte
	mutex  sync.Mutex
	server string
	agent  string // "" when agents have no token of their own
}

// serverPassword settles the server's token: given, kept from the last start, or new.
func serverPassword(given string, paths paths) (string, error) {
	password, err := passwordOf(given)
	if err != nil || password != "" {
		return password, err
	}
	kept, err := keptPassword(paths.in("token"))
	if err != nil || kept != "" {
		return kept, err
	}
	return token.NewPassword(), nil
}

// newTokens writes the token files of k3s.
func newTokens(settings config.Server, password string, paths paths, caPEM []byte) (*tokens, error) {
	agent, err := passwordOf(settings.AgentToken)
	if err != nil {
		return nil, fmt.Errorf("agent-token: %w", err)
	}
	t := &tokens{paths: paths, ca: caPEM, server: password, agent: agent}
	return t, t.write()
}

func (t *tokens) write() error {
	agentToken := t.serverToken()
	if t.agent != "" {
		agentToken = token.Format(t.ca, "node", t.agent)
	}
	for name, text := range map[string]string{"token": t.serverToken(), "agent-token": agentToken} {
		if err := pki.WriteFile(t.paths.in(name), []byte(text+"\n"), 0o600); err != nil {
			return err
		}
	}
	return linkTo(t.paths.in("node-token"), "agent-token")
}

func (t *tokens) serverToken() string { return token.Format(t.ca, "server", t.server) }

// isServer reports whether a password is the server token's.
func (t *tokens) isServer(password string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return same(t.server, password)
}

// isNode reports whether a node may join with a password.
func (t *tokens) isNode(password string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return same(t.server, password) || t.agent != "" && same(t.agent, password)
}

func same(known, given string) bool {
	return subtle.ConstantTimeCompare([]byte(known), []byte(given)) == 1
}

// rotate replaces the server token; save is told the new password before anything counts.
func (t *tokens) rotate(text string, save func(password string) error) error {
	password, err := passwordOf(text)
	if err != nil {
		return err
	}
	if password == "" {
		password = token.NewPassword()
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err := save(password); err != nil {
		return err
	}
	t.server = password
	return t.write()
}

func passwordOf(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	parsed, err := token.Parse(text)
	if err != nil {
		return "", fmt.Errorf("failed to normalize token; must be in format K10<CA-HASH>::<USERNAME>:<PASSWORD> or <PASSWORD>: %w", err)
	}
	return parsed.Password, nil
}

func keptPassword(file string) (string, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return passwordOf(strings.TrimSpace(string(data)))
}

func linkTo(link, target string) error {
	if current, err := os.Readlink(link); err == nil && current == target {
		return nil
	}
	os.Remove(link)
	return os.Symlink(target, link)
}
