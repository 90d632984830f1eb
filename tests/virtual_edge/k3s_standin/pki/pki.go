// Package pki makes the keys and certificates of a cluster and keeps them in files.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// Boards without a battery-backed clock may be a little behind the server.
	clockSkew = time.Hour
)

// Authority is a certificate authority.
type Authority struct {
	Certificate *x509.Certificate
	PEM         []byte
	key         crypto.Signer
}

// Subject says whom a certificate is for.
type Subject struct {
	Name   string
	Groups []string
	Server bool     // for a server, otherwise for a client
	Peer   bool     // for a server that is a client of its like
	Hosts  []string // DNS names and IP addresses
}

// LoadAuthority reads <base>.crt and <base>.key, and makes them when they are not there.
func LoadAuthority(base, name string) (*Authority, error) {
	key, err := LoadKey(base + ".key")
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(base + ".crt")
	if errors.Is(err, fs.ErrNotExist) {
		template := &x509.Certificate{
			SerialNumber:          serial(),
			Subject:               pkix.Name{CommonName: fmt.Sprintf("%s@%d", name, time.Now().Unix())},
			NotBefore:             time.Now().Add(-clockSkew),
			NotAfter:              time.Now().Add(authorityLifetime),
			KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
			BasicConstraintsValid: true,
			IsCA:                  true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return nil, err
		}
		data = encode("CERTIFICATE", der)
		if err := WriteFile(base+".crt", data, 0o644); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	certificate, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s.crt: %w", base, err)
	}
	return &Authority{Certificate: certificate, PEM: data, key: key}, nil
}

// Sign makes a certificate for a public key; the result holds the authority's certificate too.
func (a *Authority) Sign(subject Subject, public crypto.PublicKey) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: subject.Name, Organization: subject.Groups},
		NotBefore:    time.Now().Add(-clockSkew),
		NotAfter:     time.Now().Add(certificateLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if subject.Server {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	if subject.Peer {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range subject.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, public, a.key)
	if err != nil {
		return nil, err
	}
	return append(encode("CERTIFICATE", der), a.PEM...), nil
}

// Issue writes <base>.crt and <base>.key. The key is kept, the certificate is made anew: names
// and addresses may have changed since the last start.
func (a *Authority) Issue(base string, subject Subject) error {
	key, err := LoadKey(base + ".key")
	if err != nil {
		return err
	}
	certificate, err := a.Sign(subject, key.Public())
	if err != nil {
		return err
	}
	return WriteFile(base+".crt", certificate, 0o644)
}

// LoadKey reads a private key, and makes it when it is not there.
func LoadKey(file string) (crypto.Signer, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, err
		}
		return key, WriteFile(file, encode("EC PRIVATE KEY", der), 0o600)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", file)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// Request makes a signing request for a key; the issuer decides about the subject.
func Request(key crypto.Signer) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

// WriteFile replaces a file at once, so that nobody ever reads half of it, and makes its folder.
// A file that already has this content is left alone.
func WriteFile(file string, data []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return os.Chmod(file, mode)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(data)
	if err = errors.Join(err, temporary.Chmod(mode), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}

func parse(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	return x509.ParseCertificate(block.Bytes)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func serial() *big.Int {
	number, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	return number
}
