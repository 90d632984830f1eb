package config

import (
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

func TestServerDefaults(t *testing.T) {
	server, err := ServerSettings(Values{"node-ip": {"192.0.2.5"}}, "Board-01")
	if err != nil {
		t.Fatal(err)
	}
	if server.Node.Name != "board-01" || server.Port != 6443 || server.KubeconfigMode != 0o600 ||
		server.APIServiceIP() != "10.43.0.1" || server.ClusterDNS != "10.43.0.10" ||
		server.AdvertiseAddress != "192.0.2.5" || server.Node.DataDir != DefaultDataDir {
		t.Errorf("got %+v", server)
	}
}

func TestTokenFile(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "token"), "secret\n")
	values := Values{"node-ip": {"192.0.2.5"}, "server": {"https://192.0.2.1:6443/"}, "token-file": {file}}
	node, err := AgentSettings(values, "board")
	if err != nil || node.Token != "secret" || node.ServerURL != "https://192.0.2.1:6443" {
		t.Errorf("got %+v, %v", node, err)
	}
	write(t, file, "\n")
	if _, err := AgentSettings(values, "board"); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := AgentSettings(values, "board"); err == nil || !strings.Contains(err.Error(), "token-file") {
		t.Errorf("got %v", err)
	}
}

func TestRefusedAgents(t *testing.T) {
	for want, change := range map[string]Values{
		"--token is required":  {"token": nil},
		"--server is required": {"server": nil},
		"only https://":        {"server": {"http://192.0.2.1"}},
		"RFC 1123":             {"node-name": {"board_01"}},
		"invalid node-ip":      {"node-ip": {"192.0.2.300"}},
	} {
		values := Values{"node-ip": {"192.0.2.5"}, "server": {"https://192.0.2.1:6443"}, "token": {"secret"}}
		for name, value := range change {
			values[name] = value
		}
		if _, err := AgentSettings(values, "board"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestRefusedServers(t *testing.T) {
	for want, change := range map[string]Values{
		"only https:// URLs":           {"server": {"http://192.0.2.1:6443"}},
		"takes only etcd":              {"datastore-endpoint": {"http://192.0.2.9:2379,mysql://u:secret@x"}},
		"cluster reset":                {"cluster-reset": {"true"}},
		"not an octal file mode":       {"write-kubeconfig-mode": {"0999"}},
		"https-listen-port 70000":      {"https-listen-port": {"70000"}},
		"invalid cluster-cidr 10.42.0": {"cluster-cidr": {"10.42.0"}},
		"invalid service-cidr none":    {"service-cidr": {"none"}},
	} {
		values := Values{"node-ip": {"192.0.2.5"}}
		for name, value := range change {
			values[name] = value
		}
		if _, err := ServerSettings(values, "board"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := ServerSettings(Values{"node-ip": {"192.0.2.5"}, "cluster-reset": {"false"}}, "board"); err != nil {
		t.Error(err)
	}
	for _, endpoint := range []string{"mysql://u:secret@x", "postgres://u:secret@x"} {
		values := Values{"node-ip": {"192.0.2.5"}, "datastore-endpoint": {endpoint}}
		if _, err := ServerSettings(values, "board"); strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is in %v", err)
		}
	}
}

// The README promises which keys are acted upon; the table decides.
func TestTheReadmeListsTheKeysThatAct(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- keys -->")
	section, _, closed := strings.Cut(rest, "<!-- /keys -->")
	if !found || !closed {
		t.Fatal("README.md has no section between <!-- keys --> and <!-- /keys -->")
	}
	var listed []string
	for _, match := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(section, -1) {
		listed = append(listed, match[1])
	}
	acting := map[string]bool{}
	for _, flag := range append(Flags("server"), Flags("agent")...) {
		if flag.Acts {
			acting[flag.Name] = true
		}
	}
	var wanted []string
	for name := range acting {
		wanted = append(wanted, name)
	}
	sort.Strings(listed)
	sort.Strings(wanted)
	if strings.Join(listed, " ") != strings.Join(wanted, " ") {
		t.Errorf("README.md lists\n%q,\nthe table has\n%q", listed, wanted)
	}
}
