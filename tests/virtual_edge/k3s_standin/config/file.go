package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"go.yaml.in/yaml/v2"
)

// DefaultFile is where k3s looks for its configuration.
const DefaultFile = "/etc/rancher/k3s/config.yaml"

// fileArguments turns a configuration file and the drop-ins in <file>.d (*.yaml, *.yml, in
// alphabetical order) into arguments --key=value. A later file replaces a key, "key+" appends
// to it. A file that is absent counts as empty.
func fileArguments(file string) ([]string, error) {
	files, err := filesOf(file)
	if err != nil {
		return nil, err
	}
	var order []string
	values := map[string][]string{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		// YAML 1.1, as in k3s: an unquoted 0644 is the number 420.
		document := yaml.MapSlice{}
		if err := yaml.Unmarshal(data, &document); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, item := range document {
			key, appends := strings.CutSuffix(fmt.Sprint(item.Key), "+")
			if _, seen := values[key]; !seen {
				order = append(order, key)
			}
			if appends {
				values[key] = append(values[key], texts(item.Value)...)
			} else {
				values[key] = texts(item.Value)
			}
		}
	}
	var arguments []string
	for _, key := range order {
		dashes := "--"
		if len(key) == 1 {
			dashes = "-"
		}
		for _, value := range values[key] {
			arguments = append(arguments, dashes+key+"="+value)
		}
	}
	return arguments, nil
}

func filesOf(file string) ([]string, error) {
	var files []string
	if _, err := os.Stat(file); err == nil {
		files = append(files, file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := os.ReadDir(file + ".d")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var dropIns []string
	for _, entry := range entries {
		switch strings.ToLower(filepath.Ext(entry.Name())) {
		case ".yaml", ".yml":
			if !entry.IsDir() {
				dropIns = append(dropIns, filepath.Join(file+".d", entry.Name()))
			}
		}
	}
	sort.Strings(dropIns)
	return append(files, dropIns...), nil
}

func texts(value any) []string {
	switch typed := value.(type) {
	case nil:
		return []string{""}
	case []any:
		list := make([]string, 0, len(typed))
		for _, item := range typed {
			list = append(list, fmt.Sprint(item))
		}
		return list
	default:
		return []string{fmt.Sprint(typed)}
	}
}
