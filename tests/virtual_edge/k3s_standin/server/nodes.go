package server

import (
	"context"
	"time"

	"k3sstandin/kubeapi"
	"k3sstandin/logs"
	"k3sstandin/nodepassword"
)

// Labels that k3s gives to a server's node.
var serverLabels = map[string]string{"node-role.kubernetes.io/control-plane": "true"}

// followNodes labels this server's node, and forgets the password of a deleted node, so that
// its name can be used again.
func followNodes(ctx context.Context, api *kubeapi.Client, self string) {
	known := map[string]kubeapi.Node{}
	changed := func(node kubeapi.Node) {
		if node.Metadata.Name == self && !hasAll(node.Metadata.Labels, serverLabels) {
			patch := map[string]any{"metadata": map[string]any{"labels": serverLabels}}
			if err := api.Patch(ctx, kubeapi.NodePath(self), patch); err != nil {
				logs.Errorf("Failed to label node %s: %v", self, err)
			}
		}
	}
	gone := func(node kubeapi.Node) {
		if err := nodepassword.Forget(ctx, api, node.Metadata.Name); err != nil {
			logs.Errorf("Failed to remove the password of node %s: %v", node.Metadata.Name, err)
			return
		}
		logs.Infof("Removed the password of deleted node %s", node.Metadata.Name)
	}
	for ctx.Err() == nil {
		if err := api.FollowNodes(ctx, known, changed, gone); err != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

func hasAll(have, wanted map[string]string) bool {
	for key, value := range wanted {
		if have[key] != value {
			return false
		}
	}
	return true
}
