package kubeapi

import (
	"context"
	"encoding/json"
)

// ServerLabel is on the node of a server.
const ServerLabel = "node-role.kubernetes.io/control-plane"

// Node is what the stand-in reads of a node.
type Node struct {
	Metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		PodCIDR string `json:"podCIDR"`
	} `json:"spec"`
	Status struct {
		Addresses  []struct{ Type, Address string } `json:"addresses"`
		Conditions []struct{ Type, Status string }  `json:"conditions"`
	} `json:"status"`
}

// InternalIP is the node's first InternalIP, or "".
func (n Node) InternalIP() string {
	for _, address := range n.Status.Addresses {
		if address.Type == "InternalIP" {
			return address.Address
		}
	}
	return ""
}

// Condition is the status of a condition, or "".
func (n Node) Condition(kind string) string {
	for _, condition := range n.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return ""
}

// NodePath is the path of a node in the API.
func NodePath(name string) string { return "/api/v1/nodes/" + name }

// FollowNodes lists the nodes once and calls changed for each of them, then watches: changed
// for a new or changed node, gone for a deleted one. Nodes in known that are not in the list
// were deleted while nobody watched. It returns when the stream ends; known is up to date then.
func (c *Client) FollowNodes(ctx context.Context, known map[string]Node, changed, gone func(Node)) error {
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []Node `json:"items"`
	}
	if err := c.Get(ctx, "/api/v1/nodes", &list); err != nil {
		return err
	}
	present := map[string]bool{}
	for _, node := range list.Items {
		present[node.Metadata.Name] = true
		known[node.Metadata.Name] = node
		changed(node)
	}
	for name, node := range known {
		if !present[name] {
			delete(known, name)
			gone(node)
		}
	}
	path := "/api/v1/nodes?watch=1&resourceVersion=" + list.Metadata.ResourceVersion
	return c.Watch(ctx, path, func(event Event) {
		var node Node
		if json.Unmarshal(event.Object, &node) != nil || node.Metadata.Name == "" {
			return
		}
		switch event.Type {
		case "ADDED", "MODIFIED":
			known[node.Metadata.Name] = node
			changed(node)
		case "DELETED":
			delete(known, node.Metadata.Name)
			gone(node)
		}
	})
}
