package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k3sstandin/agent"
	"k3sstandin/config"
	"k3sstandin/logs"
	"k3sstandin/release"
	"k3sstandin/sdnotify"
	"k3sstandin/server"
)

// runNode is "k3s server" and "k3s agent".
func runNode(command string, arguments []string) {
	values, err := config.Parse(command, arguments, os.Getenv)
	if errors.Is(err, config.ErrHelp) {
		fmt.Print(usage(), "\n", flagHelp(command))
		return
	}
	title := ""
	if command == "agent" {
		title = "agent "
	}
	logs.Infof("Starting k3s %s%s (%s). %s", title, release.Version, release.Commit, release.Notice)
	if err != nil {
		logs.Fatalf("Error: %v", err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		logs.Fatalf("Error: %v", err)
	}
	// The environment is done with; no child needs a secret in it.
	os.Unsetenv("K3S_TOKEN")
	os.Unsetenv("K3S_AGENT_TOKEN")
	notifier := sdnotify.FromEnvironment()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if command == "server" {
		settings, problem := config.ServerSettings(values, hostname)
		if err = problem; err == nil {
			err = server.Run(ctx, settings, notifier)
		}
	} else {
		settings, problem := config.AgentSettings(values, hostname)
		_, missing := os.Stat(lightFile)
		settings.Light = missing == nil
		if err = problem; err == nil {
			err = agent.Run(ctx, settings, notifier)
		}
	}
	if err != nil {
		logs.Fatalf("Error: %v", err)
	}
}

// lightFile is in the description of a virtual board that is to be a light node, see package agent.
const lightFile = "/var/lib/virtual-board/light"

// useKubeconfig lets kubectl find the administrator's kubeconfig of this machine.
func useKubeconfig() {
	const file = "/etc/rancher/k3s/k3s.yaml"
	if os.Getenv("KUBECONFIG") == "" {
		if _, err := os.Stat(file); err == nil {
			os.Setenv("KUBECONFIG", file)
		}
	}
}

// runCtr becomes containerd's ctr, set to the containers of Kubernetes.
func runCtr(arguments []string) {
	if os.Getenv("CONTAINERD_ADDRESS") == "" {
		os.Setenv("CONTAINERD_ADDRESS", agent.RuntimeSocket)
	}
	if os.Getenv("CONTAINERD_NAMESPACE") == "" {
		os.Setenv("CONTAINERD_NAMESPACE", "k8s.io")
	}
	dataDir := os.Getenv("K3S_DATA_DIR")
	if dataDir == "" {
		dataDir = config.DefaultDataDir
	}
	program := filepath.Join(dataDir, "data", "current", "bin", "ctr")
	err := syscall.Exec(program, append([]string{"ctr"}, arguments...), os.Environ())
	fmt.Fprintf(os.Stderr, "k3s: %s: %v; start k3s once, it unpacks its programs\n", program, err)
	os.Exit(1)
}

func usage() string {
	return release.Notice + `

Usage: k3s COMMAND [OPTIONS]

  server     run the control plane and a node
  agent      run a node
  token      rotate: replace the token of the servers
  kubectl    talk to the cluster
  ctr        talk to containerd
  --version  print the version

Options of server and agent are those of k3s; each is a key of ` + config.DefaultFile + `, too.
`
}

func flagHelp(command string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Options of %q that the stand-in acts upon:\n", command)
	write := func(acts bool) {
		for _, flag := range config.Flags(command) {
			if flag.Acts == acts {
				fmt.Fprintf(&text, "  --%s\n", flag.Name)
			}
		}
	}
	write(true)
	text.WriteString("Options that it accepts and ignores:\n")
	write(false)
	return text.String()
}
