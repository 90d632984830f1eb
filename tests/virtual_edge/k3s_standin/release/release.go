// Package release says which release of the stand-in this is.
package release

import (
	"fmt"
	"runtime"
)

// Version and Commit are set by the linker (-X k3sstandin/release.Version=...).
var (
	Version = "v0.0.0+standin0"
	Commit  = "unknown"
)

// Notice is the sentence that every user of the stand-in gets to see.
const Notice = "This is a stand-in for k3s, not k3s: upstream Kubernetes, etcd and containerd " +
	"behind k3s's command line, for machines where the k3s release cannot be downloaded."

// Banner is what "k3s --version" prints: two lines as k3s has them, then the notice.
func Banner() string {
	return fmt.Sprintf("k3s version %s (%s)\ngo version %s\n%s\n",
		Version, Commit, runtime.Version(), Notice)
}
