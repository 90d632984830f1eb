package nodepassword

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"k3sstandin/kubeapi"
)

const secrets = "/api/v1/namespaces/kube-system/secrets"

// SecretName is the name of the secret in kube-system that holds the hash for a node.
func SecretName(node string) string { return strings.ToLower(node) + ".node-password.k3s" }

// Ensure stores the password of a new node name, and verifies that of a known one; a wrong
// password is ErrVerify.
func Ensure(ctx context.Context, client *kubeapi.Client, node, password string) error {
	err := verify(ctx, client, node, password)
	if !kubeapi.IsCode(err, http.StatusNotFound) {
		return err
	}
	hash, err := Hash(password)
	if err != nil {
		return err
	}
	secret := map[string]any{
		"apiVersion": "v1",
		"kind":       "Secret",
		"metadata":   map[string]any{"name": SecretName(node), "namespace": "kube-system"},
		"immutable":  true,
		"data":       map[string][]byte{"hash": []byte(hash)},
	}
	err = client.Create(ctx, secrets, secret)
	if kubeapi.IsCode(err, http.StatusConflict) {
		return verify(ctx, client, node, password)
	}
	return err
}

// Forget removes what is stored for a node, so that its name is free again.
func Forget(ctx context.Context, client *kubeapi.Client, node string) error {
	err := client.Delete(ctx, secrets+"/"+SecretName(node))
	if kubeapi.IsCode(err, http.StatusNotFound) {
		return nil
	}
	return err
}

func verify(ctx context.Context, client *kubeapi.Client, node, password string) error {
	var secret struct {
		Data map[string][]byte `json:"data"`
	}
	if err := client.Get(ctx, secrets+"/"+SecretName(node), &secret); err != nil {
		return err
	}
	hash, present := secret.Data["hash"]
	if !present {
		return fmt.Errorf("unable to locate hash data for node secret '%s'", SecretName(node))
	}
	if err := Verify(string(hash), password); err != nil {
		return fmt.Errorf("unable to verify hash for node '%s': %w", node, err)
	}
	return nil
}
