package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"text/template"
	"time"

	"k3sstandin/config"
	"k3sstandin/pki"
	"k3sstandin/process"
)

// RuntimeSocket is where containerd listens, as in k3s.
const RuntimeSocket = "/run/k3s/containerd/containerd.sock"

const runtimeState = "/run/k3s/containerd"

// Configuration of containerd 2 (version 3).
var containerdConfig = template.Must(template.New("").Parse(`# Written by the k3s stand-in at each start.
version = 3
root = {{ printf "%q" .Root }}
state = {{ printf "%q" .State }}
imports = [{{ printf "%q" .Imports }}]

[grpc]
  address = {{ printf "%q" .Socket }}

[plugins.'io.containerd.cri.v1.images']
  snapshotter = {{ printf "%q" .Snapshotter }}

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = {{ printf "%q" .PauseImage }}

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = {{ .RestrictOOM }}

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = [{{ printf "%q" .Programs }}]
  conf_dir = {{ printf "%q" .Networks }}

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false

[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
  platform = {{ printf "%q" .Platform }}
  snapshotter = {{ printf "%q" .Snapshotter }}
`))

// containerd is a running containerd.
type containerd struct{ programs, snapshotter string }

func startContainerd(ctx context.Context, components *process.Group, node config.Node, paths paths, programs string) (*containerd, error) {
	root, err := paths.folder("containerd")
	if err != nil {
		return nil, err
	}
	networks, err := paths.folder("etc", "cni", "net.d")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(runtimeState, 0o711); err != nil {
		return nil, err
	}
	var text strings.Builder
	err = containerdConfig.Execute(&text, map[string]any{
		"Root": root, "State": runtimeState, "Socket": RuntimeSocket,
		"Imports":     paths.in("etc", "containerd", "config-v3.toml.d", "*.toml"),
		"Snapshotter": node.Snapshotter, "PauseImage": node.PauseImage,
		"RestrictOOM": !maySetOOMScore(), "Programs": programs, "Networks": networks,
		"Platform": "linux/" + goruntime.GOARCH,
	})
	if err != nil {
		return nil, err
	}
	file := paths.in("etc", "containerd", "config.toml")
	if err := pki.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(root, "containerd.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	child, err := process.Start("containerd", filepath.Join(programs, "containerd"),
		[]string{"--config", file}, searchPath(programs), log)
	if err := components.Add(child, err); err != nil {
		return nil, err
	}
	runtime := &containerd{programs: programs, snapshotter: node.Snapshotter}
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := net.Dial("unix", RuntimeSocket)
		if err == nil {
			return runtime, conn.Close()
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("containerd does not listen on %s after a minute, see %s: %w",
				RuntimeSocket, log.Name(), err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-child.Done():
			return nil, fmt.Errorf("%w, see %s", child.Err(), log.Name())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// searchPath puts the unpacked programs (shim, CNI plugins) before those of the machine (runc).
func searchPath(programs string) []string {
	return []string{"PATH=" + programs + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin"}
}

// maySetOOMScore reports whether this process has CAP_SYS_RESOURCE (bit 24). Without it runc
// cannot lower the score of a container, as in many containers that play a machine.
func maySetOOMScore() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "CapEff:"); found {
			capabilities, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err == nil && capabilities&(1<<24) != 0
		}
	}
	return false
}
