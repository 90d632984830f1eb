// Package bootstrap carries the authorities of a cluster from one server to the next: as plain
// files between two servers, and sealed with the token in the data store, as k3s does
// (https://docs.k3s.io/cli/token#server).
package bootstrap

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k3sstandin/pki"
)

// ErrOtherToken is returned for what was sealed with another token; the words are k3s's.
var ErrOtherToken = errors.New("bootstrap data already found and encrypted with different token")

// names are the files below tls/ that all servers of a cluster have in common.
var names = []string{
	"server-ca.crt", "server-ca.key", "client-ca.crt", "client-ca.key",
	"request-header-ca.crt", "request-header-ca.key", "service.key",
	"etcd/server-ca.crt", "etcd/server-ca.key", "etcd/peer-ca.crt", "etcd/peer-ca.key",
}

// Files holds the common files by name.
type Files map[string][]byte

// Read reads the common files of a server from its folder tls.
func Read(folder string) (Files, error) {
	files := Files{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	return files, nil
}

// Write writes the common files to a server's folder tls; names that are not common are left out.
func (f Files) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		data, present := f[name]
		if !present {
			continue
		}
		if err := pki.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

const (
	saltLength = 16
	iterations = 4096
	keyLength  = 32
)

// Seal encrypts the files with a token's password: salt, nonce, ciphertext.
func (f Files) Seal(password string) ([]byte, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	salt := make([]byte, saltLength)
	rand.Read(salt) // never fails (crypto/rand)
	box, err := newBox(password, salt)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, box.NonceSize())
	rand.Read(nonce)
	return box.Seal(append(salt, nonce...), nonce, text, nil), nil
}

// Open decrypts what Seal made.
func Open(sealed []byte, password string) (Files, error) {
	if len(sealed) < saltLength {
		return nil, errors.New("bootstrap data is cut short")
	}
	box, err := newBox(password, sealed[:saltLength])
	if err != nil {
		return nil, err
	}
	rest := sealed[saltLength:]
	if len(rest) < box.NonceSize() {
		return nil, errors.New("bootstrap data is cut short")
	}
	text, err := box.Open(nil, rest[:box.NonceSize()], rest[box.NonceSize():], nil)
	if err != nil {
		return nil, ErrOtherToken
	}
	var files Files
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("bootstrap data: %w", err)
	}
	return files, nil
}

func newBox(password string, salt []byte) (cipher.AEAD, error) {
	key, err := pbkdf2.Key(sha256.New, password, salt, iterations, keyLength)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
