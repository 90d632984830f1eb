package server

import (
	"context"
	"time"

	"k3sstandin/etcd"
	"k3sstandin/kubeapi"
	"k3sstandin/logs"
	"k3sstandin/nodepassword"
)

// Marks of a member of etcd on its node, as in k3s (pkg/etcd of its sources).
const (
	etcdLabel         = "node-role.kubernetes.io/etcd"
	memberAnnotation  = "etcd.k3s.cattle.io/node-name"
	addressAnnotation = "etcd.k3s.cattle.io/node-address"
	removeAnnotation  = "etcd.k3s.cattle.io/remove"
	removedAnnotation = "etcd.k3s.cattle.io/removed-node-name"
	voterCondition    = "EtcdIsVoter"
)

// nodeKeeper does for the nodes of the cluster what a server owes them.
type nodeKeeper struct {
	api   *kubeapi.Client
	self  string
	store *store
}

// follow marks this server's node, forgets the password of a deleted node, so that its name can be
// used again, and lets members of etcd go.
func (k *nodeKeeper) follow(ctx context.Context) {
	if k.store.control != nil {
		go k.reportVoter(ctx)
	}
	known := map[string]kubeapi.Node{}
	changed := func(node kubeapi.Node) {
		if node.Metadata.Name == k.self {
			k.mark(ctx, node)
		} else if node.Metadata.Annotations[removeAnnotation] == "true" && node.Metadata.Annotations[removedAnnotation] == "" {
			k.release(ctx, node)
		}
	}
	gone := func(node kubeapi.Node) {
		name := node.Metadata.Name
		if name != k.self {
			k.removeMember(ctx, node)
		}
		if err := nodepassword.Forget(ctx, k.api, name); err != nil {
			logs.Errorf("Failed to remove the password of node %s: %v", name, err)
			return
		}
		logs.Infof("Removed the password of deleted node %s", name)
	}
	for ctx.Err() == nil {
		if err := k.api.FollowNodes(ctx, known, changed, gone); err != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// mark gives this server's node the labels and annotations of k3s.
func (k *nodeKeeper) mark(ctx context.Context, node kubeapi.Node) {
	labels := map[string]string{kubeapi.ServerLabel: "true"}
	annotations := map[string]string{}
	if k.store.control != nil {
		member := k.store.member
		if node.Metadata.Annotations[removedAnnotation] == member.Name {
			return // on its way out
		}
		labels[etcdLabel] = "true"
		annotations[memberAnnotation] = member.Name
		annotations[addressAnnotation] = etcd.Member{PeerURL: member.PeerURL}.Host()
	}
	if hasAll(node.Metadata.Labels, labels) && hasAll(node.Metadata.Annotations, annotations) {
		return
	}
	patch := map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}}
	if err := k.api.Patch(ctx, kubeapi.NodePath(k.self), patch); err != nil {
		logs.Errorf("Failed to label node %s: %v", k.self, err)
	}
}

// release removes the member of a node that asks for it, and notes on the node that it did.
func (k *nodeKeeper) release(ctx context.Context, node kubeapi.Node) {
	member := node.Metadata.Annotations[memberAnnotation]
	if member == "" || !k.removeMember(ctx, node) {
		return
	}
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		removedAnnotation: member, memberAnnotation: nil, addressAnnotation: nil,
	}}}
	if err := k.api.Patch(ctx, kubeapi.NodePath(node.Metadata.Name), patch); err != nil && !kubeapi.IsCode(err, 404) {
		logs.Errorf("Failed to note that etcd member %s was removed: %v", member, err)
	}
}

func (k *nodeKeeper) removeMember(ctx context.Context, node kubeapi.Node) bool {
	member := node.Metadata.Annotations[memberAnnotation]
	if member == "" || k.store.control == nil {
		return true
	}
	for range 10 {
		err := k.store.control.Remove(ctx, member)
		if err == nil {
			logs.Infof("Removed etcd member %s of node %s", member, node.Metadata.Name)
			return true
		}
		logs.Errorf("Failed to remove etcd member %s: %v", member, err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(2 * time.Second):
		}
	}
	return false
}

// reportVoter keeps the condition EtcdIsVoter of this server's node.
func (k *nodeKeeper) reportVoter(ctx context.Context) {
	for {
		if err := k.setVoter(ctx); err != nil && ctx.Err() == nil && !kubeapi.IsCode(err, 404) {
			logs.Errorf("Failed to report the state of etcd: %v", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second):
		}
	}
}

func (k *nodeKeeper) setVoter(ctx context.Context) error {
	voter, err := k.store.isVoter(ctx)
	if err != nil {
		return err
	}
	status, reason, message := "True", "MemberNotLearner", "Node is a voting member of the etcd cluster"
	if !voter {
		status, reason, message = "False", "MemberIsLearner", "Node has not been promoted to voting member of the etcd cluster"
	}
	var node kubeapi.Node
	if err := k.api.Get(ctx, kubeapi.NodePath(k.self), &node); err != nil {
		return err
	}
	if node.Condition(voterCondition) == status {
		return nil
	}
	now := time.Now().UTC().Format(time.RFC3339)
	return k.api.PatchLists(ctx, kubeapi.NodePath(k.self)+"/status", map[string]any{"status": map[string]any{
		"conditions": []map[string]string{{
			"type": voterCondition, "status": status, "reason": reason, "message": message,
			"lastHeartbeatTime": now, "lastTransitionTime": now,
		}},
	}})
}

func hasAll(have, wanted map[string]string) bool {
	for key, value := range wanted {
		if have[key] != value {
			return false
		}
	}
	return true
}
