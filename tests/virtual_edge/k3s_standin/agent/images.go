package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k3sstandin/logs"
)

// Label by which kubelet's image collector leaves an image alone.
const pinned = "io.cri-containerd.pinned=pinned"

// importImages imports every archive in a folder: the air-gap images of the release and those
// of the user (https://docs.k3s.io/installation/airgap). A bad archive is logged, not fatal.
func (c *containerd) importImages(ctx context.Context, folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		file := filepath.Join(folder, entry.Name())
		if entry.IsDir() || !isArchive(entry.Name()) {
			continue
		}
		begin := time.Now()
		if err := c.ctr(ctx, "images", "import", "--snapshotter", c.snapshotter,
			"--label", pinned, file); err != nil {
			logs.Errorf("Error encountered while importing %s: %v", file, err)
			continue
		}
		logs.Infof("Imported images from %s in %s", file, time.Since(begin).Round(time.Millisecond))
	}
	return nil
}

func isArchive(name string) bool {
	for _, suffix := range []string{".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst", ".tar.bz2", ".tbz"} {
		if strings.HasSuffix(strings.ToLower(name), suffix) {
			return true
		}
	}
	return false
}

func (c *containerd) ctr(ctx context.Context, arguments ...string) error {
	command := exec.CommandContext(ctx, filepath.Join(c.programs, "ctr"),
		append([]string{"--address", RuntimeSocket, "--namespace", "k8s.io"}, arguments...)...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
