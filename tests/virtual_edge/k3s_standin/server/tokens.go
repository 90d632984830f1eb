package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k3sstandin/config"
	"k3sstandin/pki"
	"k3sstandin/token"
)

// prepareTokens settles the server's token (given, kept from the last start, or new), writes
// the token files of k3s and returns the passwords with which a node may join.
func prepareTokens(settings *config.Server, paths paths, caPEM []byte) ([]string, error) {
	given, err := passwordOf(settings.Node.Token)
	if err != nil {
		return nil, err
	}
	kept, err := keptPassword(paths.in("token"))
	if err != nil {
		return nil, err
	}
	switch {
	case given == "" && kept == "":
		given = token.NewPassword()
	case given == "":
		given = kept
	case kept != "" && given != kept:
		// k3s encrypts the cluster's certificates with the token and cannot read them with another.
		return nil, errors.New("bootstrap data already found and encrypted with different token")
	}
	agentPassword, err := passwordOf(settings.AgentToken)
	if err != nil {
		return nil, fmt.Errorf("agent-token: %w", err)
	}
	passwords := []string{given}
	agentToken := token.Format(caPEM, "server", given)
	if agentPassword != "" {
		passwords = append(passwords, agentPassword)
		agentToken = token.Format(caPEM, "node", agentPassword)
	}
	serverToken := token.Format(caPEM, "server", given)
	for name, text := range map[string]string{"token": serverToken, "agent-token": agentToken} {
		if err := pki.WriteFile(paths.in(name), []byte(text+"\n"), 0o600); err != nil {
			return nil, err
		}
	}
	if err := linkTo(paths.in("node-token"), "agent-token"); err != nil {
		return nil, err
	}
	settings.Node.Token = serverToken
	return passwords, nil
}

func passwordOf(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	parsed, err := token.Parse(text)
	if err != nil {
		return "", fmt.Errorf("failed to normalize token; must be in format K10<CA-HASH>::<USERNAME>:<PASSWORD> or <PASSWORD>: %w", err)
	}
	return parsed.Password, nil
}

func keptPassword(file string) (string, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return passwordOf(strings.TrimSpace(string(data)))
}

func linkTo(link, target string) error {
	if current, err := os.Readlink(link); err == nil && current == target {
		return nil
	}
	os.Remove(link)
	return os.Symlink(target, link)
}
