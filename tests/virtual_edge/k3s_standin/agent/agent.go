package agent

import (
	"context"
	"os"

	"k3sstandin/config"
	"k3sstandin/logs"
	"k3sstandin/payload"
	"k3sstandin/process"
	"k3sstandin/release"
	"k3sstandin/sdnotify"
)

// Run is "k3s agent": it returns when the context ends or a component fails.
func Run(ctx context.Context, node config.Node, notifier sdnotify.Notifier) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	identity, err := LoadIdentity(&node)
	if err != nil {
		return err
	}
	components := process.NewGroup()
	defer components.Stop(stopPatience)

	started := make(chan error, 1)
	go func() { started <- Start(ctx, node, identity, components) }()
	for {
		select {
		case <-ctx.Done():
			notifier.Send("STOPPING=1")
			logs.Infof("Shutdown request received")
			return nil
		case err := <-components.Failed():
			return err
		case err := <-started:
			if err == nil {
				logs.Infof("k3s agent is up and running")
				err = notifier.Send("READY=1", "STATUS=stand-in agent is running")
			}
			if err != nil && ctx.Err() == nil {
				return err
			}
			started = nil
		}
	}
}

// Start joins the cluster and starts the node's components; it returns when kubelet answers.
func Start(ctx context.Context, node config.Node, identity Identity, components *process.Group) error {
	paths := newPaths(node.DataDir)
	servers := func([]string) {}
	if node.BalancerPort > 0 {
		balancer, err := startBalancer(ctx, &node, paths)
		if err != nil {
			return err
		}
		servers = balancer.learn
	}
	if node.Light {
		if _, err := join(ctx, node, identity, paths); err != nil {
			return err
		}
		return runLight(ctx, node, identity, paths)
	}
	programs, err := UnpackPrograms(node.DataDir)
	if err != nil {
		return err
	}
	cluster, err := join(ctx, node, identity, paths)
	if err != nil {
		return err
	}
	runtime, err := startContainerd(ctx, components, node, paths, programs)
	if err != nil {
		return err
	}
	if err := runtime.importImages(ctx, paths.in("images")); err != nil {
		return err
	}
	if err := startKubelet(components, node, cluster, paths, programs); err != nil {
		return err
	}
	network, err := newNetwork(node, paths, servers)
	if err != nil {
		return err
	}
	go network.run(ctx)
	if err := relayAPI(ctx, cluster.APIServiceIP, node.ServerURL); err != nil {
		// Pods that do not use the API run without it.
		logs.Errorf("Pods of this node cannot reach the API: %v", err)
	}
	return waitForKubelet(ctx)
}

// UnpackPrograms unpacks what this program carries, once for each build, and returns the folder.
func UnpackPrograms(dataDir string) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	return payload.Extract(program, dataDir, release.Commit)
}
