package server

import "path/filepath"

// paths knows where a server keeps its files, as in k3s.
type paths struct{ server string }

func newPaths(dataDir string) paths { return paths{server: filepath.Join(dataDir, "server")} }

func (p paths) in(elements ...string) string {
	return filepath.Join(append([]string{p.server}, elements...)...)
}
func (p paths) tls(name string) string  { return p.in("tls", name) }
func (p paths) cred(name string) string { return p.in("cred", name) }
