package server

import (
	"os"

	"k3sstandin/config"
	"k3sstandin/kubeapi"
	"k3sstandin/logs"
)

// writeKubeconfig writes the administrator's kubeconfig, where k3s has it.
func writeKubeconfig(settings config.Server, paths paths) error {
	err := kubeconfigFromFiles(localURL(settings), paths.tls("server-ca.crt"), paths.tls("client-admin.crt"),
		paths.tls("client-admin.key"), settings.Kubeconfig, settings.KubeconfigMode)
	if err == nil {
		logs.Infof("Wrote kubeconfig %s", settings.Kubeconfig)
	}
	return err
}

func kubeconfigFromFiles(address, ca, cert, key, file string, mode os.FileMode) error {
	text, err := kubeapi.Kubeconfig(address, ca, cert, key)
	if err != nil {
		return err
	}
	return kubeapi.WriteKubeconfig(file, text, mode)
}
