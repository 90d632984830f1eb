// Package token reads and writes k3s's join tokens
// (https://docs.k3s.io/cli/token): a bare password, or
// K10<SHA-256 of the cluster CA>::<user>:<password>.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	prefix     = "K10"
	hashLength = sha256.Size * 2
)

// Token is a parsed join token. CAHash and User are empty in the short form.
type Token struct {
	CAHash   string
	User     string
	Password string
}

// Parse reads either form. Errors never quote the token.
func Parse(text string) (Token, error) {
	if text == "" {
		return Token{}, errors.New("token must not be empty")
	}
	rest, secure := strings.CutPrefix(text, prefix)
	if !secure {
		return Token{Password: text}, nil
	}
	hash, credentials, found := strings.Cut(rest, "::")
	if !found {
		hash, credentials = "", rest
	}
	if hash != "" && len(hash) != hashLength {
		return Token{}, errors.New("invalid token CA hash length")
	}
	user, password, found := strings.Cut(credentials, ":")
	if !found || password == "" {
		return Token{}, errors.New("invalid token format")
	}
	return Token{CAHash: hash, User: user, Password: password}, nil
}

// HashCA is the hash of a cluster CA as it stands in a token: over the bytes of the PEM file.
func HashCA(pem []byte) string {
	sum := sha256.Sum256(pem)
	return hex.EncodeToString(sum[:])
}

// Format writes the secure form.
func Format(caPEM []byte, user, password string) string {
	return prefix + HashCA(caPEM) + "::" + user + ":" + password
}

// CheckCA compares the token's CA hash, if it has one, with the CA that the server presented.
func (t Token) CheckCA(caPEM []byte) error {
	if got := HashCA(caPEM); t.CAHash != "" && t.CAHash != got {
		return fmt.Errorf("token CA hash does not match the Cluster CA certificate hash: %s != %s",
			t.CAHash, got)
	}
	return nil
}

// NewPassword returns 32 random hexadecimal digits.
func NewPassword() string {
	raw := make([]byte, 16)
	rand.Read(raw) // never fails (crypto/rand)
	return hex.EncodeToString(raw)
}
