package kubeapi

import (
	"encoding/base64"
	"fmt"
	"os"

	"k3sstandin/pki"
)

const kubeconfig = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: %s
    server: %s
  name: default
contexts:
- context:
    cluster: default
    user: default
  name: default
current-context: default
kind: Config
users:
- name: default
  user:
    client-certificate-data: %s
    client-key-data: %s
`

// Kubeconfig makes a kubeconfig that carries its certificates inside.
func Kubeconfig(server, caFile, certFile, keyFile string) (string, error) {
	var data [3]string
	for index, file := range []string{caFile, certFile, keyFile} {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		data[index] = base64.StdEncoding.EncodeToString(content)
	}
	return fmt.Sprintf(kubeconfig, data[0], server, data[1], data[2]), nil
}

// WriteKubeconfig replaces a kubeconfig file at once.
func WriteKubeconfig(file, text string, mode os.FileMode) error {
	return pki.WriteFile(file, []byte(text), mode)
}
