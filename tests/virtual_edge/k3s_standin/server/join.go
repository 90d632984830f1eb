package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"k3sstandin/access"
	"k3sstandin/bootstrap"
	"k3sstandin/config"
	"k3sstandin/etcd"
	"k3sstandin/logs"
	"k3sstandin/supervisor"
	"k3sstandin/token"
)

// joinCluster makes this server one of the cluster that another server has: it takes over the
// authorities and has itself added to the members of etcd.
func (s *store) joinCluster(ctx context.Context, settings config.Server, paths paths) error {
	if settings.Node.Token == "" {
		return errors.New("K3S_TOKEN is required to join a cluster")
	}
	secret, err := token.Parse(settings.Node.Token)
	if err != nil {
		return err
	}
	first, err := access.Connect(ctx, settings.Node.ServerURL, secret)
	if err != nil {
		return fmt.Errorf("failed to validate token: %w", err)
	}
	data, err := first.Call(ctx, access.AsServer, http.MethodGet, supervisor.Prefix+"server-bootstrap", nil, nil)
	if err != nil {
		return fmt.Errorf("failed to get bootstrap data: %w", err)
	}
	var files bootstrap.Files
	if err := json.Unmarshal(data, &files); err != nil {
		return fmt.Errorf("failed to get bootstrap data: %w", err)
	}
	if err := compareSettings(ctx, first, settings); err != nil {
		return err
	}
	if err := files.Write(paths.in("tls")); err != nil {
		return err
	}
	wanted, err := json.Marshal(etcd.Member{Name: s.member.Name, PeerURL: s.member.PeerURL})
	if err != nil {
		return err
	}
	for {
		members, err := addMember(ctx, first, wanted)
		switch {
		case err == nil:
			s.member.InitialCluster = etcd.InitialCluster(members, s.member.Name, s.member.PeerURL)
			s.member.Existing = true
			logs.Infof("Starting etcd to join cluster with members %s", s.member.InitialCluster)
			return nil
		case errors.Is(err, etcd.ErrNotYet):
			logs.Infof("Waiting for other members to finish joining etcd cluster: %v", err)
		default:
			if errors.Is(err, etcd.ErrDuplicate) {
				os.Remove(nameFile(s.member.Folder))
			}
			return fmt.Errorf("etcd cluster join failed: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func addMember(ctx context.Context, first *access.Server, wanted []byte) ([]etcd.Member, error) {
	answer, err := first.Call(ctx, access.AsServer, http.MethodPost, supervisor.Prefix+"etcd-members", nil, wanted)
	var status *access.StatusError
	if errors.As(err, &status) {
		return etcd.Answer(status.Code, []byte(status.Text))
	}
	if err != nil {
		return nil, err
	}
	return etcd.Answer(http.StatusOK, answer)
}

// compareSettings refuses what would tear the cluster apart, in k3s's words.
func compareSettings(ctx context.Context, first *access.Server, settings config.Server) error {
	data, err := first.Call(ctx, access.AsServer, http.MethodGet, supervisor.Prefix+"config", nil, nil)
	if err != nil {
		return fmt.Errorf("failed to validate server configuration: %w", err)
	}
	var theirs supervisor.AgentConfig
	if err := json.Unmarshal(data, &theirs); err != nil {
		return fmt.Errorf("failed to validate server configuration: %w", err)
	}
	if ours := agentConfig(settings); ours != theirs {
		logs.Errorf("critical configuration mismatched: this server has %+v, the cluster %+v", ours, theirs)
		return errors.New("failed to validate server configuration: critical configuration value mismatch between servers")
	}
	return nil
}
