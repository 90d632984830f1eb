package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"k3sstandin/config"
	"k3sstandin/token"
)

const ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func prepare(t *testing.T, folder, given, agent string) *tokens {
	t.Helper()
	paths := newPaths(folder)
	password, err := serverPassword(given, paths)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := newTokens(config.Server{AgentToken: agent}, password, paths, []byte(ca))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestTheTokenIsKept(t *testing.T) {
	folder := t.TempDir()
	for _, given := range []string{"first", "", token.Format([]byte(ca), "server", "first")} {
		if tokens := prepare(t, folder, given, ""); !tokens.isServer("first") || !tokens.isNode("first") {
			t.Errorf("given %q: not kept", given)
		}
	}
	if tokens := prepare(t, folder, "second", ""); tokens.isServer("first") {
		t.Error("the kept one counts more than the given one")
	}
}

func TestAServerWithoutTokenMakesOne(t *testing.T) {
	password, err := serverPassword("", newPaths(t.TempDir()))
	if err != nil || len(password) != 32 {
		t.Errorf("got %q, %v", password, err)
	}
}

func TestTokenFilesAreThoseOfK3s(t *testing.T) {
	folder := t.TempDir()
	tokens := prepare(t, folder, "first", "agents")
	if tokens.isServer("agents") || !tokens.isNode("agents") || tokens.isNode("other") || tokens.isNode("") {
		t.Error("the agents' token lets agents in, and nobody else")
	}
	check := func(server string) {
		t.Helper()
		for name, want := range map[string]string{
			"token":      token.Format([]byte(ca), "server", server),
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
	check("first")
	if err := tokens.rotate("second", func(string) error { return errors.New("no etcd") }); err == nil || !tokens.isServer("first") {
		t.Errorf("what was not saved counts: %v", err)
	}
	check("first")
	var saved string
	err := tokens.rotate("second", func(password string) error {
		saved = password
		return nil
	})
	if err != nil || saved != "second" || tokens.isServer("first") || !tokens.isServer("second") {
		t.Errorf("not rotated: %q, %v", saved, err)
	}
	check("second")
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
