package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func none(string) string { return "" }

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func parse(t *testing.T, command, text string, arguments ...string) (Values, error) {
	t.Helper()
	file := write(t, filepath.Join(t.TempDir(), "config.yaml"), text)
	return Parse(command, append([]string{"--config", file}, arguments...), none)
}

func TestKeysAreFlags(t *testing.T) {
	values, err := parse(t, "server", `
token: secret
node-label:
  - a=1
  - b=2
kubelet-arg: "fail-cgroupv1=false"
cluster-init: true
https-listen-port: 7443
tls-san: one.example,192.0.2.1
node-ip: [192.0.2.5]
`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"token":             {"secret"},
		"node-label":        {"a=1", "b=2"},
		"kubelet-arg":       {"fail-cgroupv1=false"},
		"cluster-init":      {"true"},
		"https-listen-port": {"7443"},
		"tls-san":           {"one.example", "192.0.2.1"},
		"node-ip":           {"192.0.2.5"},
	} {
		if !reflect.DeepEqual(values[name], want) {
			t.Errorf("%s: got %q, want %q", name, values[name], want)
		}
	}
}

func TestTheCommandLineWinsAndListsGrow(t *testing.T) {
	values, err := parse(t, "agent", "token: file\nnode-label: [a=1]\n",
		"--token=line", "--node-label", "b=2", "-s", "https://192.0.2.1:6443", "--with-node-id")
	if err != nil {
		t.Fatal(err)
	}
	if values.Text("token", "") != "line" || !values.Bool("with-node-id") ||
		values.Text("server", "") != "https://192.0.2.1:6443" {
		t.Errorf("got %q", values)
	}
	if want := []string{"a=1", "b=2"}; !reflect.DeepEqual(values["node-label"], want) {
		t.Errorf("got %q, want %q", values["node-label"], want)
	}
}

func TestUnknownKeysAreFatal(t *testing.T) {
	for _, command := range []string{"server", "agent"} {
		_, err := parse(t, command, "tokn: secret\n")
		if err == nil || err.Error() != "flag provided but not defined: -tokn" {
			t.Errorf("%s: got %v", command, err)
		}
	}
	// Known to the server only.
	if _, err := parse(t, "agent", "tls-san: x\n"); err == nil {
		t.Error("an agent accepted tls-san")
	}
	if _, err := parse(t, "server", "", "--nope"); err == nil {
		t.Error("an unknown flag passed")
	}
}

func TestBadValues(t *testing.T) {
	for text, want := range map[string]string{
		"cluster-init: perhaps\n":   "invalid boolean value",
		"https-listen-port: many\n": "https-listen-port",
		"token: [unclosed\n":        "yaml",
		"just some words\n":         "yaml",
	} {
		if _, err := parse(t, "server", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := parse(t, "server", "", "stray"); err == nil || !strings.Contains(err.Error(), "stray") {
		t.Errorf("got %v", err)
	}
	if _, err := parse(t, "server", "", "--token"); err == nil || !strings.Contains(err.Error(), "needs an argument") {
		t.Errorf("got %v", err)
	}
}

func TestDropInsReplaceAndAppend(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "config.yaml"), "node-label: [a=1]\nnode-name: one\nkubelet-arg: [x=1]\n")
	write(t, file+".d/10-first.yaml", "node-label+: [b=2]\nnode-name: two\n")
	write(t, file+".d/20-second.yml", "kubelet-arg: [y=2]\nnode-label+: c=3\n")
	write(t, file+".d/30-ignored.txt", "node-name: three\n")
	values, err := Parse("agent", []string{"-c", file}, none)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a=1", "b=2", "c=3"}; !reflect.DeepEqual(values["node-label"], want) {
		t.Errorf("node-label: got %q", values["node-label"])
	}
	if values.Text("node-name", "") != "two" || !reflect.DeepEqual(values["kubelet-arg"], []string{"y=2"}) {
		t.Errorf("got %q", values)
	}
}

func TestTheEnvironmentFillsWhatIsLeft(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "config.yaml"), "token: file\n")
	environment := map[string]string{
		"K3S_CONFIG_FILE": file, "K3S_TOKEN": "environment", "K3S_URL": "https://192.0.2.1:6443",
	}
	values, err := Parse("agent", nil, func(name string) string { return environment[name] })
	if err != nil {
		t.Fatal(err)
	}
	if values.Text("token", "") != "file" || values.Text("server", "") != "https://192.0.2.1:6443" {
		t.Errorf("got %q", values)
	}
}

func TestAMissingConfigurationFileMatters(t *testing.T) {
	if _, err := Parse("agent", []string{"--config", "/nonexistent/x.yaml"}, none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestHelp(t *testing.T) {
	if _, err := Parse("agent", []string{"--help"}, none); !errors.Is(err, ErrHelp) {
		t.Errorf("got %v", err)
	}
}

func TestFlagNamesAreUnique(t *testing.T) {
	for _, command := range []string{"server", "agent"} {
		seen := map[string]bool{}
		for _, flag := range Flags(command) {
			for _, name := range append([]string{flag.Name}, flag.Aliases...) {
				if seen[name] {
					t.Errorf("%s: %s is there twice", command, name)
				}
				seen[name] = true
			}
		}
	}
}

func TestArgumentsOfTheUserReplaceOwnOnes(t *testing.T) {
	got := Arguments(
		map[string]string{"v": "1", "profiling": "false"},
		[]string{"profiling=true", "--feature-gates=A=true", "flag", "many=1", "many=2"})
	want := []string{"--feature-gates=A=true", "--flag=true", "--many=1", "--many=2", "--profiling=true", "--v=1"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
