package bootstrap

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestFilesTravelSealed(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"server-ca.key": "one", "etcd/peer-ca.crt": "two", "own.key": "mine"} {
		file := filepath.Join(here, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Read(here)
	if err != nil || len(files) != 2 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	sealed, err := files.Seal("secret")
	if err != nil || bytes.Contains(sealed, []byte("server-ca")) {
		t.Fatalf("not sealed: %v", err)
	}
	if _, err := Open(sealed, "other"); !errors.Is(err, ErrOtherToken) {
		t.Errorf("another token: %v", err)
	}
	if _, err := Open(sealed[:20], "secret"); err == nil {
		t.Error("half of it opens")
	}
	opened, err := Open(sealed, "secret")
	if err != nil {
		t.Fatal(err)
	}
	opened["../escape"] = []byte("x")
	if err := opened.Write(there); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(there, "etcd/peer-ca.crt"))
	if err != nil || string(data) != "two" {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(there, "../escape")); err == nil {
		t.Error("a name that is not common was written")
	}
}
