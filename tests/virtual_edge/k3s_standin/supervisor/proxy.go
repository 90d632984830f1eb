package supervisor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"k3sstandin/pki"
)

// APIProxy forwards to kube-apiserver. A client with a certificate of the cluster is named in
// the headers of an authenticating proxy
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#authenticating-proxy);
// tokens pass through. Watches stream and exec's upgrades pass.
func APIProxy(target *url.URL, serverCA, clientCA *pki.Authority, frontProxy tls.Certificate) http.Handler {
	named := proxyTo(target, serverCA, []tls.Certificate{frontProxy})
	unnamed := proxyTo(target, serverCA, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for header := range r.Header {
			if strings.HasPrefix(header, "X-Remote-") {
				delete(r.Header, header)
			}
		}
		user, groups := clientOf(r, clientCA)
		if user == "" {
			unnamed.ServeHTTP(w, r)
			return
		}
		r.Header.Set("X-Remote-User", user)
		for _, group := range groups {
			r.Header.Add("X-Remote-Group", group)
		}
		named.ServeHTTP(w, r)
	})
}

func proxyTo(target *url.URL, serverCA *pki.Authority, certificates []tls.Certificate) *httputil.ReverseProxy {
	pool := x509.NewCertPool()
	pool.AddCert(serverCA.Certificate)
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
		},
		// HTTP/1.1: an upgrade needs a connection of its own.
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: pool, Certificates: certificates},
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == context.Canceled {
				return
			}
			w.Header().Set("Retry-After", "1")
			http.Error(w, "apiserver not ready", http.StatusServiceUnavailable)
		},
	}
}

// clientOf returns the name and groups in the client's certificate if the cluster signed it.
func clientOf(r *http.Request, clientCA *pki.Authority) (string, []string) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return "", nil
	}
	roots := x509.NewCertPool()
	roots.AddCert(clientCA.Certificate)
	certificate := r.TLS.PeerCertificates[0]
	_, err := certificate.Verify(x509.VerifyOptions{
		Roots:     roots,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return "", nil
	}
	return certificate.Subject.CommonName, certificate.Subject.Organization
}
