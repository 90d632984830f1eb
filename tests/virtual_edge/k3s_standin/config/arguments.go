package config

import (
	"sort"
	"strings"
)

// Arguments merges a component's own flags with those of the user ("name=value", with or
// without leading dashes), which replace them, and returns --name=value in a stable order.
// A user's flag may be given several times; all its values are kept, in order.
func Arguments(own map[string]string, user []string) []string {
	values := map[string][]string{}
	for name, value := range own {
		values[name] = []string{value}
	}
	given := map[string]bool{}
	for _, argument := range user {
		name, value, hasValue := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if !hasValue {
			value = "true"
		}
		if !given[name] {
			values[name] = nil
			given[name] = true
		}
		values[name] = append(values[name], value)
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	var arguments []string
	for _, name := range names {
		for _, value := range values[name] {
			arguments = append(arguments, "--"+name+"="+value)
		}
	}
	return arguments
}
