package components

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"k3sstandin/etcd"
)

// runEtcd runs a member of etcd as its only argument says, see etcd.Settings.
func runEtcd(arguments []string) int {
	var settings etcd.Settings
	if len(arguments) != 1 || json.Unmarshal([]byte(arguments[0]), &settings) != nil {
		fmt.Fprintln(os.Stderr, "usage: etcd SETTINGS")
		return 2
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	level := zap.NewAtomicLevelAt(zap.ErrorLevel)
	config, err := etcdConfig(settings, level)
	if err != nil {
		return tell(err)
	}
	running, err := embed.StartEtcd(config)
	if err != nil {
		return tell(err)
	}
	defer func() {
		level.SetLevel(zap.FatalLevel) // closing its listeners is no error worth a line
		running.Close()
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	member := &member{settings: settings, server: running.Server}
	if settings.Control != "" {
		if err := member.serve(ctx); err != nil {
			return tell(err)
		}
	}
	select {
	case <-running.Server.ReadyNotify():
	case <-time.After(joinPatience):
		return tell(errors.New("not ready, too few members answer"))
	case <-stop:
		return 0
	}
	go member.look(ctx)
	select {
	case <-stop:
		return 0
	case <-running.Server.StopNotify():
		return tell(member.explain(errors.New("stopped")))
	case err := <-running.Err():
		return tell(member.explain(err))
	}
}

// joinPatience is long: after a power cut the other members may come up much later.
const joinPatience = 10 * time.Minute

func tell(err error) int {
	fmt.Fprintln(os.Stderr, "etcd:", err)
	return 1
}

func etcdConfig(settings etcd.Settings, level zap.AtomicLevel) (*embed.Config, error) {
	config := embed.NewConfig()
	config.Name = settings.Name
	config.Dir = settings.Folder
	config.AutoCompactionMode, config.AutoCompactionRetention = "periodic", "5m"
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339TimeEncoder
	logger, err := zap.Config{
		Level: level, Encoding: "console", EncoderConfig: encoding,
		OutputPaths: []string{"stderr"}, DisableStacktrace: true,
	}.Build()
	if err != nil {
		return nil, err
	}
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	if settings.PeerURL == "" {
		client := []url.URL{{Scheme: "unix", Path: settings.Socket}}
		peer := []url.URL{{Scheme: "unix", Path: settings.Socket + ".peer"}}
		config.ListenClientUrls, config.AdvertiseClientUrls = client, client
		config.ListenPeerUrls, config.AdvertisePeerUrls = peer, peer
		config.InitialCluster = config.InitialClusterFromName(config.Name)
		return config, nil
	}
	peer, err := url.Parse(settings.PeerURL)
	if err != nil {
		return nil, err
	}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.ListenClientUrls = nil
	for _, text := range settings.ClientURLs {
		client, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		config.ListenClientUrls = append(config.ListenClientUrls, *client)
	}
	config.AdvertiseClientUrls = config.ListenClientUrls[len(config.ListenClientUrls)-1:]
	config.InitialCluster = settings.InitialCluster
	if settings.Existing {
		config.ClusterState = embed.ClusterStateFlagExisting
	}
	// As k3s has them: boards are slow, and their storage is.
	config.TickMs, config.ElectionMs = 500, 5000
	files := settings.Certificates
	config.ClientTLSInfo = transport.TLSInfo{
		CertFile: files.ServerCert, KeyFile: files.ServerKey, TrustedCAFile: files.ServerCA, ClientCertAuth: true,
	}
	config.PeerTLSInfo = transport.TLSInfo{
		CertFile: files.PeerCert, KeyFile: files.PeerKey, TrustedCAFile: files.PeerCA, ClientCertAuth: true,
	}
	return config, nil
}

// member is the running one of this process.
type member struct {
	settings etcd.Settings
	server   *etcdserver.EtcdServer
}

// serve answers etcd.Client.
func (m *member) serve(ctx context.Context) error {
	os.Remove(m.settings.Control)
	listener, err := net.Listen("unix", m.settings.Control)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /members", func(w http.ResponseWriter, _ *http.Request) { etcd.Reply(w, m.list(), nil) })
	mux.HandleFunc("POST /members", func(w http.ResponseWriter, r *http.Request) {
		var wanted etcd.Member
		if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		err := m.add(r.Context(), wanted)
		etcd.Reply(w, m.list(), err)
	})
	mux.HandleFunc("DELETE /members/{name}", func(w http.ResponseWriter, r *http.Request) {
		err := m.remove(r.Context(), r.PathValue("name"))
		etcd.Reply(w, m.list(), err)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener)
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	return nil
}

func (m *member) list() []etcd.Member {
	var members []etcd.Member
	for _, one := range m.server.Cluster().Members() {
		found := etcd.Member{ID: uint64(one.ID), Name: one.Name, Learner: one.IsLearner, Self: one.ID == m.server.MemberID()}
		if len(one.PeerURLs) > 0 {
			found.PeerURL = one.PeerURLs[0]
		}
		members = append(members, found)
	}
	return members
}

func (m *member) add(ctx context.Context, wanted etcd.Member) error {
	members := m.list()
	if err := etcd.FindDuplicate(members, wanted.Name, wanted.PeerURL); err != nil {
		return err
	}
	for _, one := range members {
		if one.PeerURL == wanted.PeerURL {
			return nil
		}
	}
	peer, err := url.Parse(wanted.PeerURL)
	if err != nil {
		return err
	}
	now := time.Now()
	_, err = m.server.AddMember(ctx, *membership.NewMemberAsLearner("", []url.URL{*peer}, "", &now))
	return patient(err)
}

func (m *member) remove(ctx context.Context, name string) error {
	for _, one := range m.list() {
		if one.Name == name {
			_, err := m.server.RemoveMember(ctx, one.ID)
			return patient(err)
		}
	}
	return nil
}

// patient marks the errors that pass when the other members have settled.
func patient(err error) error {
	for _, passing := range []error{
		etcderrors.ErrUnhealthy, etcderrors.ErrNotEnoughStartedMembers, etcderrors.ErrTimeout,
		etcderrors.ErrNoLeader, membership.ErrTooManyLearners,
	} {
		if errors.Is(err, passing) {
			return fmt.Errorf("%w: %w", etcd.ErrNotYet, err)
		}
	}
	return err
}

// look keeps the cluster in order while it runs: the leader makes voters of learners that have
// caught up, and a member whose address changed (one that was alone at first) tells the others.
func (m *member) look(ctx context.Context) {
	if m.settings.PeerURL == "" {
		return
	}
	for ctx.Err() == nil {
		for _, one := range m.list() {
			switch {
			case one.Self && one.PeerURL != m.settings.PeerURL:
				update := membership.Member{ID: m.server.MemberID()}
				update.PeerURLs = []string{m.settings.PeerURL}
				m.try("tell the others its address", func(ctx context.Context) error {
					_, err := m.server.UpdateMember(ctx, update)
					return err
				})
			case one.Learner && one.Name != "" && m.server.Leader() == m.server.MemberID():
				m.try("make a voter of "+one.Name, func(ctx context.Context) error {
					_, err := m.server.PromoteMember(ctx, one.ID)
					if errors.Is(err, etcderrors.ErrLearnerNotReady) {
						return nil
					}
					return err
				})
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (m *member) try(what string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := do(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "etcd: cannot %s yet: %v\n", what, err)
	}
}

// explain leaves a tombstone when the others have removed this member.
func (m *member) explain(err error) error {
	if !m.server.IsIDRemoved(uint64(m.server.MemberID())) {
		return err
	}
	if problem := os.WriteFile(m.settings.Tombstone(), nil, 0o600); problem != nil {
		return problem
	}
	return errors.New("this server has been removed from the cluster please restart k3s to rejoin it")
}
