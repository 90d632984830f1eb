// Package agent makes this machine a node of the cluster: it joins through the supervisor and
// runs containerd and kubelet.
package agent

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k3sstandin/config"
	"k3sstandin/pki"
)

// Files that belong to the machine and outlive the data directory, as in k3s.
const (
	passwordFile = "/etc/rancher/node/password"
	idFile       = "/etc/rancher/node/id"
)

// Identity is who this node says it is.
type Identity struct {
	Name     string
	Password string
}

// LoadIdentity reads the node's password (and its id, if the name shall carry one); what does
// not exist yet is made.
func LoadIdentity(node *config.Node) (Identity, error) {
	password, err := readOrMake(passwordFile, 16)
	if err != nil {
		return Identity{}, err
	}
	if node.WithID {
		id, err := readOrMake(idFile, 4)
		if err != nil {
			return Identity{}, err
		}
		node.Name += "-" + id
	}
	return Identity{Name: node.Name, Password: password}, nil
}

func readOrMake(file string, bytes int) (string, error) {
	data, err := os.ReadFile(file)
	if err == nil {
		text := strings.TrimSpace(string(data))
		if text == "" {
			return "", fmt.Errorf("%s is empty; remove it to get a new one", file)
		}
		return text, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	raw := make([]byte, bytes)
	rand.Read(raw) // never fails (crypto/rand)
	text := hex.EncodeToString(raw)
	return text, pki.WriteFile(file, []byte(text+"\n"), 0o600)
}
