// The k3s stand-in: one program with k3s's command line that runs upstream Kubernetes, etcd and
// containerd. See README.md.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k3sstandin/components"
	"k3sstandin/release"
)

func main() {
	// Children are this program under another name.
	name := filepath.Base(os.Args[0])
	if name == "ctr" {
		runCtr(os.Args[1:])
	}
	if name == "kubectl" {
		useKubeconfig()
	}
	components.Run(name)

	arguments := os.Args[1:]
	if len(arguments) == 0 {
		fmt.Print(usage())
		return
	}
	switch arguments[0] {
	case "--version", "-v":
		fmt.Print(release.Banner())
	case "--help", "-h", "help":
		fmt.Print(usage())
	case "server", "agent":
		runNode(arguments[0], arguments[1:])
	case "token":
		runToken(arguments[1:])
	case "kubectl":
		useKubeconfig()
		os.Args = append([]string{"kubectl"}, arguments[1:]...)
		components.Run("kubectl")
	case "ctr":
		runCtr(arguments[1:])
	default:
		fmt.Fprintf(os.Stderr, "k3s: the stand-in has no command %q (it has: server, agent, token, kubectl, ctr)\n", arguments[0])
		os.Exit(1)
	}
}
