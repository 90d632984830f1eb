package pki

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

func TestAnAuthorityIsMadeOnceAndKept(t *testing.T) {
	base := filepath.Join(t.TempDir(), "tls", "ca")
	first, err := LoadAuthority(base, "ca")
	if err != nil {
		t.Fatal(err)
	}
	second, err := LoadAuthority(base, "ca")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.PEM, second.PEM) || !first.Certificate.IsCA {
		t.Error("the authority changed")
	}
	info, err := os.Stat(base + ".key")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v", info, err)
	}
}

func TestIssueRenewsTheCertificateAndKeepsTheKey(t *testing.T) {
	folder := t.TempDir()
	authority, err := LoadAuthority(filepath.Join(folder, "ca"), "ca")
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(folder, "serving")
	read := func(name string) []byte {
		data, err := os.ReadFile(base + name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if err := authority.Issue(base, Subject{Name: "one", Server: true, Hosts: []string{"192.0.2.1"}}); err != nil {
		t.Fatal(err)
	}
	key := read(".key")
	if err := authority.Issue(base, Subject{Name: "two", Server: true, Hosts: []string{"192.0.2.2", "host"}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(key, read(".key")) {
		t.Error("the key changed")
	}
	certificate, err := parse(read(".crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority.Certificate)
	for _, host := range []string{"192.0.2.2", "host"} {
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Error(err)
		}
	}
	if certificate.VerifyHostname("192.0.2.1") == nil {
		t.Error("the old address is still in the certificate")
	}
}

func TestABrokenKeyIsAnErrorNotANewKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.key")
	for _, text := range []string{"", "no PEM", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKey(file); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}

func TestWriteFileReplacesAndSetsTheMode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "secret")
	for _, text := range []string{"one", "two", "two"} {
		if err := WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil || string(data) != text {
			t.Errorf("got %q, %v", data, err)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(file, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode: %v, %v", info, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
}
