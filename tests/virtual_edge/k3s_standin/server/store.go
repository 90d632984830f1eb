package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k3sstandin/config"
	"k3sstandin/datastore"
	"k3sstandin/etcd"
	"k3sstandin/logs"
	"k3sstandin/pki"
	"k3sstandin/process"
)

// store is where the cluster's state is. There are three kinds: etcd of this server that stays
// alone, etcd of this server as a member among others, and an etcd elsewhere.
type store struct {
	access   datastore.Config // how this server reaches it
	external bool
	member   etcd.Settings
	control  *etcd.Client // of a member that may have others
	// joining is a member that does not know the others yet.
	joining bool
}

// shared reports whether other servers may use the same data.
func (s *store) shared() bool { return s.external || s.control != nil }

// chooseStore decides as k3s does: what is on the disk counts more than the options by which a
// cluster is founded or joined.
func chooseStore(settings config.Server, paths paths) (*store, error) {
	if len(settings.Datastore.Endpoints) > 0 {
		return &store{access: settings.Datastore, external: true}, nil
	}
	folder := paths.in("db", "etcd")
	member := etcd.Settings{Folder: folder, Name: "standin", Socket: paths.in("db", "etcd.sock")}
	if _, err := os.Stat(member.Tombstone()); err == nil {
		logs.Infof("tombstone file has been detected, removing data dir to rejoin the cluster")
		if err := os.RemoveAll(folder); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	_, err := os.Stat(filepath.Join(folder, "member", "wal"))
	initialized := err == nil
	name, err := os.ReadFile(nameFile(folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	joins := settings.Node.ServerURL != ""
	if len(name) == 0 && !settings.ClusterInit && !joins {
		return &store{access: datastore.Config{Endpoints: []string{"unix://" + member.Socket}}, member: member}, nil
	}
	if len(name) == 0 {
		if initialized && !settings.ClusterInit {
			return nil, fmt.Errorf("this server has data of its own in %s and cannot join another; "+
				"remove the folder, or start with --cluster-init", folder)
		}
		name = []byte(settings.Node.Name + "-" + randomDigits())
		if err := pki.WriteFile(nameFile(folder), name, 0o600); err != nil {
			return nil, err
		}
	}
	address := settings.AdvertiseAddress
	member.Name = string(name)
	member.PeerURL = "https://" + net.JoinHostPort(address, "2380")
	member.ClientURLs = []string{"https://127.0.0.1:2379", "https://" + net.JoinHostPort(address, "2379")}
	member.Control = paths.in("db", "etcd-control.sock")
	member.InitialCluster = member.Name + "=" + member.PeerURL
	member.Certificates = etcd.Certificates{
		ServerCA: paths.tls("etcd/server-ca.crt"), ServerCert: paths.tls("etcd/server-client.crt"), ServerKey: paths.tls("etcd/server-client.key"),
		PeerCA: paths.tls("etcd/peer-ca.crt"), PeerCert: paths.tls("etcd/peer-server-client.crt"), PeerKey: paths.tls("etcd/peer-server-client.key"),
	}
	return &store{
		access: datastore.Config{
			Endpoints: member.ClientURLs[:1], CAFile: paths.tls("etcd/server-ca.crt"),
			CertFile: paths.tls("etcd/client.crt"), KeyFile: paths.tls("etcd/client.key"),
		},
		member:  member,
		control: etcd.NewClient(member.Control),
		joining: joins && !initialized && !settings.ClusterInit,
	}, nil
}

func nameFile(folder string) string { return filepath.Join(folder, "name") }

func randomDigits() string {
	raw := make([]byte, 4)
	rand.Read(raw) // never fails (crypto/rand)
	return hex.EncodeToString(raw)
}

// start runs the member, if this server has one, and returns when it takes part in the cluster.
func (s *store) start(ctx context.Context, components *process.Group) error {
	if s.external {
		return nil
	}
	arguments, err := json.Marshal(s.member)
	if err != nil {
		return err
	}
	if err := components.Add(process.Component("etcd", []string{string(arguments)}, nil)); err != nil {
		return err
	}
	if s.control == nil {
		return nil
	}
	for said := time.Now(); ; {
		voter, err := s.isVoter(ctx)
		if voter {
			return nil
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			reason := "this server has not yet been promoted from learner to voting member"
			if err != nil {
				reason = err.Error()
			}
			logs.Infof("Waiting for etcd server to become available: %s", reason)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-components.Failed():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (s *store) isVoter(ctx context.Context) (bool, error) {
	members, err := s.control.Members(ctx)
	for _, member := range members {
		if member.Self {
			return !member.Learner && member.Name == s.member.Name, err
		}
	}
	return false, err
}

// addMember answers another server that wants to join.
func (s *store) addMember(ctx context.Context, wanted etcd.Member) ([]etcd.Member, error) {
	if s.control == nil {
		return nil, errors.New("this server was not started with --cluster-init")
	}
	return s.control.Add(ctx, wanted.Name, wanted.PeerURL)
}

// arguments are those of kube-apiserver.
func (s *store) arguments() map[string]string {
	arguments := map[string]string{"etcd-servers": strings.Join(s.access.Endpoints, ",")}
	for name, value := range map[string]string{
		"etcd-cafile": s.access.CAFile, "etcd-certfile": s.access.CertFile, "etcd-keyfile": s.access.KeyFile,
	} {
		if value != "" {
			arguments[name] = value
		}
	}
	return arguments
}
