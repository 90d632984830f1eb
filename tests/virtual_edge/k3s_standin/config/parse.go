package config

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrHelp is returned when the arguments ask for help.
var ErrHelp = errors.New("help requested")

// Values holds what was set, by the flag's name; scalars have their last value only.
type Values map[string][]string

// Parse reads the arguments that follow the word "server" or "agent", after those of the
// configuration file: the command line wins, lists grow. The environment fills what is left.
// An unknown flag or key is an error.
func Parse(command string, arguments []string, getenv func(string) string) (Values, error) {
	for _, argument := range arguments {
		if argument == "--help" || argument == "-h" {
			return nil, ErrHelp
		}
	}
	flags := map[string]Flag{}
	for _, flag := range Flags(command) {
		flags[flag.Name] = flag
		for _, alias := range flag.Aliases {
			flags[alias] = flag
		}
	}

	fromCommand := Values{}
	if err := apply(fromCommand, flags, arguments); err != nil {
		return nil, err
	}
	file := getenv("K3S_CONFIG_FILE")
	if file == "" {
		file = DefaultFile
		if given := fromCommand["config"]; len(given) > 0 {
			file = given[0]
			if _, err := os.Stat(file); err != nil {
				return nil, err
			}
		}
	}
	fromFile, err := fileArguments(file)
	if err != nil {
		return nil, err
	}
	values := Values{}
	if err := apply(values, flags, append(fromFile, arguments...)); err != nil {
		return nil, err
	}
	for _, flag := range Flags(command) {
		if text := getenv(flag.Env); flag.Env != "" && text != "" && len(values[flag.Name]) == 0 {
			if err := set(values, flag, text); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

func apply(values Values, flags map[string]Flag, arguments []string) error {
	for index := 0; index < len(arguments); index++ {
		argument := arguments[index]
		if !strings.HasPrefix(argument, "-") || argument == "-" || argument == "--" {
			return fmt.Errorf("unexpected argument %q", argument)
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		flag, known := flags[name]
		if !known {
			return fmt.Errorf("flag provided but not defined: -%s", name)
		}
		if !hasValue {
			switch {
			case flag.Kind == Bool:
				value = "true"
			case index+1 < len(arguments):
				index++
				value = arguments[index]
			default:
				return fmt.Errorf("flag needs an argument: -%s", name)
			}
		}
		if err := set(values, flag, value); err != nil {
			return err
		}
	}
	return nil
}

func set(values Values, flag Flag, value string) error {
	switch flag.Kind {
	case Bool:
		if value == "" {
			value = "true"
		}
		if _, err := strconv.ParseBool(value); err != nil {
			return fmt.Errorf("invalid boolean value %q for -%s: parse error", value, flag.Name)
		}
		values[flag.Name] = []string{value}
	case Int:
		if _, err := strconv.Atoi(value); err != nil {
			return fmt.Errorf("invalid value %q for flag -%s: parse error", value, flag.Name)
		}
		values[flag.Name] = []string{value}
	case List:
		values[flag.Name] = append(values[flag.Name], value)
	case CommaList:
		for _, part := range strings.Split(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				values[flag.Name] = append(values[flag.Name], part)
			}
		}
	default:
		values[flag.Name] = []string{value}
	}
	return nil
}

// Text returns a scalar, or the fallback when it is unset or empty.
func (v Values) Text(name, fallback string) string {
	if set := v[name]; len(set) > 0 && set[len(set)-1] != "" {
		return set[len(set)-1]
	}
	return fallback
}

// Bool returns a boolean; unset is false.
func (v Values) Bool(name string) bool {
	on, _ := strconv.ParseBool(v.Text(name, "false"))
	return on
}

// Int returns a number, or the fallback when it is unset.
func (v Values) Int(name string, fallback int) int {
	number, err := strconv.Atoi(v.Text(name, ""))
	if err != nil {
		return fallback
	}
	return number
}
