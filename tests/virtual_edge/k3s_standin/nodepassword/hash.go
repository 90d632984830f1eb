// Package nodepassword keeps the first password that a node name came with, as k3s does: a
// second machine under the same name is refused.
package nodepassword

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/scrypt"
)

// Parameters of k3s's hashes: $1:<salt>:<log2 N>:<r>:<p>:<base64 of the key>.
const (
	logN      = 15
	blockSize = 8
	parallel  = 1
	keyLength = 64
)

// ErrVerify says that a password is not the one of this node.
var ErrVerify = errors.New("password does not match")

// Hash makes the text that is stored for a password.
func Hash(password string) (string, error) {
	raw := make([]byte, 8)
	rand.Read(raw) // never fails (crypto/rand)
	salt := hex.EncodeToString(raw)
	key, err := derive(password, salt, logN, blockSize, parallel)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("$1:%s:%d:%d:%d:%s", salt, logN, blockSize, parallel,
		base64.StdEncoding.EncodeToString(key)), nil
}

// Verify compares a password with a stored hash; a mismatch is ErrVerify.
func Verify(hash, password string) error {
	parts := strings.Split(hash, ":")
	if len(parts) != 6 || parts[0] != "$1" {
		return errors.New("unknown format of the stored hash")
	}
	var cost [3]int
	for index := range cost {
		number, err := strconv.Atoi(parts[2+index])
		if err != nil || number < 1 || number > 24 {
			return errors.New("bad parameters in the stored hash")
		}
		cost[index] = number
	}
	want, err := base64.StdEncoding.DecodeString(parts[5])
	if err != nil {
		return fmt.Errorf("bad key in the stored hash: %w", err)
	}
	got, err := derive(password, parts[1], cost[0], cost[1], cost[2])
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(got, want) != 1 {
		return ErrVerify
	}
	return nil
}

func derive(password, salt string, log2, r, p int) ([]byte, error) {
	return scrypt.Key([]byte(password), []byte(salt), 1<<log2, r, p, keyLength)
}
