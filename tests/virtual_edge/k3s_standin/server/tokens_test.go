package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k3sstandin/config"
	"k3sstandin/token"
)

const ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func prepare(t *testing.T, folder, given, agent string) ([]string, error) {
	t.Helper()
	settings := config.Server{Node: config.Node{Token: given}, AgentToken: agent}
	return prepareTokens(&settings, newPaths(folder), []byte(ca))
}

func TestTheTokenIsKeptAndMayNotChange(t *testing.T) {
	folder := t.TempDir()
	if passwords, err := prepare(t, folder, "first", ""); err != nil || strings.Join(passwords, " ") != "first" {
		t.Fatalf("got %q, %v", passwords, err)
	}
	if passwords, err := prepare(t, folder, "", ""); err != nil || passwords[0] != "first" {
		t.Errorf("not kept: %q, %v", passwords, err)
	}
	if passwords, err := prepare(t, folder, token.Format([]byte(ca), "server", "first"), ""); err != nil || passwords[0] != "first" {
		t.Errorf("the secure form of the same token: %q, %v", passwords, err)
	}
	_, err := prepare(t, folder, "second", "")
	if err == nil || err.Error() != "bootstrap data already found and encrypted with different token" {
		t.Errorf("got %v", err)
	}
}

func TestAServerWithoutTokenMakesOne(t *testing.T) {
	passwords, err := prepare(t, t.TempDir(), "", "")
	if err != nil || len(passwords) != 1 || len(passwords[0]) != 32 {
		t.Errorf("got %q, %v", passwords, err)
	}
}

func TestTokenFilesAreThoseOfK3s(t *testing.T) {
	folder := t.TempDir()
	if _, err := prepare(t, folder, "first", "agents"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"token":      token.Format([]byte(ca), "server", "first"),
		"node-token": token.Format([]byte(ca), "node", "agents"),
	} {
		file := filepath.Join(folder, "server", name)
		data, err := os.ReadFile(file)
		if err != nil || string(data) != want+"\n" {
			t.Errorf("%s: got %q, %v", name, data, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestCertificatesServeTheNamesOfTheServer(t *testing.T) {
	settings := config.Server{
		Node:             config.Node{Name: "board", IPs: []string{"192.0.2.5"}},
		AdvertiseAddress: "192.0.2.5", ServiceCIDR: "10.43.0.0/16", ClusterDomain: "cluster.local",
		TLSSANs: []string{"edge.example"},
	}
	paths := newPaths(t.TempDir())
	for range 2 { // the second time with the files of the first
		certificates, err := issueCertificates(settings, paths)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"board", "192.0.2.5", "127.0.0.1", "10.43.0.1", "edge.example", "kubernetes.default.svc"} {
			if err := certificates.serving.Leaf.VerifyHostname(name); err != nil {
				t.Error(err)
			}
		}
	}
	if info, err := os.Stat(paths.in("tls")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder of the keys: %v, %v", info, err)
	}
}
