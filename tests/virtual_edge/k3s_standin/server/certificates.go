package server

import (
	"crypto/tls"
	"os"

	"k3sstandin/config"
	"k3sstandin/pki"
)

// certificates are those that the server process itself uses; the others are in files.
type certificates struct {
	serverCA, clientCA  *pki.Authority
	serving, frontProxy tls.Certificate
}

// issueCertificates makes what is missing and renews the rest, under k3s's file names.
func issueCertificates(settings config.Server, paths paths) (*certificates, error) {
	// Closed to others as a whole: it holds every key of the cluster.
	if err := os.MkdirAll(paths.in("tls"), 0o700); err != nil {
		return nil, err
	}
	serverCA, err := pki.LoadAuthority(paths.tls("server-ca"), "k3s-server-ca")
	if err != nil {
		return nil, err
	}
	clientCA, err := pki.LoadAuthority(paths.tls("client-ca"), "k3s-client-ca")
	if err != nil {
		return nil, err
	}
	proxyCA, err := pki.LoadAuthority(paths.tls("request-header-ca"), "k3s-request-header-ca")
	if err != nil {
		return nil, err
	}
	if _, err := pki.LoadKey(paths.tls("service.key")); err != nil {
		return nil, err
	}
	etcdCA, err := pki.LoadAuthority(paths.tls("etcd/server-ca"), "etcd-server-ca")
	if err != nil {
		return nil, err
	}
	peerCA, err := pki.LoadAuthority(paths.tls("etcd/peer-ca"), "etcd-peer-ca")
	if err != nil {
		return nil, err
	}
	hosts := append([]string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc." + settings.ClusterDomain, "localhost", "127.0.0.1",
		settings.APIServiceIP(), settings.AdvertiseAddress, settings.Node.Name,
	}, append(append([]string{}, settings.Node.IPs...), settings.TLSSANs...)...)
	// The names by which members of etcd know each other.
	peers := append([]string{"localhost", "127.0.0.1", settings.AdvertiseAddress, settings.Node.Name}, settings.Node.IPs...)
	issues := []struct {
		name      string
		authority *pki.Authority
		subject   pki.Subject
	}{
		{"serving-kube-apiserver", serverCA, pki.Subject{Name: "kube-apiserver", Server: true, Hosts: hosts}},
		{"client-auth-proxy", proxyCA, pki.Subject{Name: "system:auth-proxy"}},
		{"client-admin", clientCA, pki.Subject{Name: "system:admin", Groups: []string{"system:masters"}}},
		{"client-controller", clientCA, pki.Subject{Name: "system:kube-controller-manager"}},
		{"client-scheduler", clientCA, pki.Subject{Name: "system:kube-scheduler"}},
		{"etcd/server-client", etcdCA, pki.Subject{Name: "etcd-server", Peer: true, Hosts: peers}},
		{"etcd/client", etcdCA, pki.Subject{Name: "etcd-client"}},
		{"etcd/peer-server-client", peerCA, pki.Subject{Name: "etcd-peer", Peer: true, Hosts: peers}},
		{"client-kube-apiserver", clientCA, pki.Subject{Name: "system:apiserver", Groups: []string{"system:masters"}}},
	}
	for _, issue := range issues {
		if err := issue.authority.Issue(paths.tls(issue.name), issue.subject); err != nil {
			return nil, err
		}
	}
	result := &certificates{serverCA: serverCA, clientCA: clientCA}
	if result.serving, err = loadPair(paths.tls("serving-kube-apiserver")); err != nil {
		return nil, err
	}
	result.frontProxy, err = loadPair(paths.tls("client-auth-proxy"))
	return result, err
}
