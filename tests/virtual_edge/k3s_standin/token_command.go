package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"k3sstandin/access"
	"k3sstandin/config"
	"k3sstandin/supervisor"
	"k3sstandin/token"
)

// runToken is "k3s token rotate", see https://docs.k3s.io/cli/token#k3s-token-rotate.
func runToken(arguments []string) {
	if len(arguments) == 0 || arguments[0] != "rotate" {
		fmt.Fprintln(os.Stderr, "k3s: the stand-in has no command but \"token rotate\" for tokens")
		os.Exit(1)
	}
	if err := rotateToken(arguments[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	fmt.Println("Token rotated, restart k3s nodes with new token")
}

func rotateToken(arguments []string) error {
	flags := flag.NewFlagSet("rotate", flag.ContinueOnError)
	var present, wanted, server, dataDir string
	for _, name := range []string{"token", "t"} {
		flags.StringVar(&present, name, os.Getenv("K3S_TOKEN"), "present token")
	}
	for _, name := range []string{"server", "s"} {
		flags.StringVar(&server, name, "https://127.0.0.1:6443", "server to connect to")
	}
	for _, name := range []string{"data-dir", "d"} {
		flags.StringVar(&dataDir, name, config.DefaultDataDir, "folder of the server")
	}
	flags.StringVar(&wanted, "new-token", "", "token that replaces the present one")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if present == "" {
		data, err := os.ReadFile(filepath.Join(dataDir, "server", "token"))
		if err != nil {
			return err
		}
		present = strings.TrimSpace(string(data))
	}
	secret, err := token.Parse(present)
	if err != nil {
		return err
	}
	ctx := context.Background()
	connected, err := access.Connect(ctx, strings.TrimRight(server, "/"), secret)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"newToken": wanted})
	if err != nil {
		return err
	}
	_, err = connected.Call(ctx, access.AsServer, http.MethodPut, supervisor.Prefix+"token", nil, body)
	var status *access.StatusError
	if errors.As(err, &status) && status.Code == http.StatusUnauthorized {
		return fmt.Errorf("%w; the token that is given is not the present one", err)
	}
	return err
}
