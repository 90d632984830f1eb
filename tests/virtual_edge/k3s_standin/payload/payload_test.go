package payload

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"
)

// program is a file that begins like a program and ends with a ZIP archive.
func program(t *testing.T, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("\x7fELF and so on"); err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(file)
	archive.SetOffset(13)
	for name, text := range files {
		writer, err := archive.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExtractUnpacksOnceAndFollowsTheBuild(t *testing.T) {
	data := t.TempDir()
	first, err := Extract(program(t, map[string]string{"ctr": "old"}), data, "one")
	if err != nil {
		t.Fatal(err)
	}
	check(t, filepath.Join(first, "ctr"), "old")
	check(t, filepath.Join(data, "data", "current", "bin", "ctr"), "old")

	if err := os.WriteFile(filepath.Join(first, "mark"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Extract("/nonexistent", data, "one"); err != nil {
		t.Errorf("unpacked again: %v", err)
	}
	check(t, filepath.Join(first, "mark"), "")

	if _, err := Extract(program(t, map[string]string{"ctr": "new"}), data, "two"); err != nil {
		t.Fatal(err)
	}
	check(t, filepath.Join(data, "data", "current", "bin", "ctr"), "new")
	check(t, filepath.Join(first, "ctr"), "old")
}

func TestAProgramWithoutArchiveLeavesNothing(t *testing.T) {
	data := t.TempDir()
	bare := filepath.Join(data, "bare")
	if err := os.WriteFile(bare, []byte("\x7fELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Extract(bare, data, "one"); err == nil {
		t.Fatal("no error")
	}
	left, err := os.ReadDir(filepath.Join(data, "data"))
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func check(t *testing.T, file, want string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil || string(data) != want {
		t.Errorf("%s: got %q, %v, want %q", file, data, err, want)
	}
}
