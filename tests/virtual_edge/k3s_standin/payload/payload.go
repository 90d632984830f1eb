// Package payload unpacks the programs that ride on the end of this program's file as a ZIP
// archive: containerd, its shim and ctr, and the CNI plugins.
package payload

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Extract unpacks program's archive to <dataDir>/data/<digest>/bin and returns that folder. As
// with k3s, <dataDir>/data/current points to it. Unpacking happens once per build: digest names
// the build. Folders of other builds are left, running shims may still be executed from them.
func Extract(program, dataDir, digest string) (string, error) {
	root := filepath.Join(dataDir, "data")
	folder := filepath.Join(root, digest)
	if _, err := os.Stat(folder); err != nil {
		if err := os.MkdirAll(root, 0o755); err != nil {
			return "", err
		}
		// What an interrupted start left.
		leftovers, _ := filepath.Glob(filepath.Join(root, ".unpacking-*"))
		for _, leftover := range leftovers {
			os.RemoveAll(leftover)
		}
		unfinished, err := os.MkdirTemp(root, ".unpacking-")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(unfinished)
		if err := unpack(program, filepath.Join(unfinished, "bin")); err != nil {
			return "", fmt.Errorf("unpack the programs inside %s: %w", program, err)
		}
		if err := os.Chmod(unfinished, 0o755); err != nil {
			return "", err
		}
		if err := os.Rename(unfinished, folder); err != nil {
			return "", err
		}
	}
	current := filepath.Join(root, "current")
	if target, _ := os.Readlink(current); target != digest {
		temporary := current + ".new"
		os.Remove(temporary)
		if err := os.Symlink(digest, temporary); err != nil {
			return "", err
		}
		if err := os.Rename(temporary, current); err != nil {
			return "", err
		}
	}
	return filepath.Join(folder, "bin"), nil
}

func unpack(archive, folder string) error {
	reader, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, entry := range reader.File {
		if err := unpackFile(entry, filepath.Join(folder, filepath.Base(entry.Name))); err != nil {
			return fmt.Errorf("%s: %w", entry.Name, err)
		}
	}
	return nil
}

func unpackFile(entry *zip.File, file string) error {
	source, err := entry.Open()
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		target.Close()
		return err
	}
	return target.Close()
}
