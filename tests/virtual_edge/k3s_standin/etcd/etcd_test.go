package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
)

var members = []Member{
	{ID: 1 << 63, Name: "board-01-0a1b2c3d", PeerURL: "https://192.0.2.1:2380"},
	{ID: 2, PeerURL: "https://192.0.2.2:2380", Learner: true},
}

func TestInitialClusterNamesTheOneThatJoins(t *testing.T) {
	want := "board-01-0a1b2c3d=https://192.0.2.1:2380,board-02-4e5f6a7b=https://192.0.2.2:2380"
	if got := InitialCluster(members, "board-02-4e5f6a7b", "https://192.0.2.2:2380"); got != want {
		t.Errorf("got %s", got)
	}
}

func TestASecondMemberOfOneNodeIsADuplicate(t *testing.T) {
	for name, want := range map[string]error{
		"board-01-ffffffff": ErrDuplicate,
		"board-01-0a1b2c3d": nil, // itself, again
		"board-02-ffffffff": nil,
		"board-ffffffff":    nil,
	} {
		if err := FindDuplicate(members, name, "https://192.0.2.9:2380"); !errors.Is(err, want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAnswersAndErrorsPassThroughTheSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "control")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var problem error
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		Reply(w, members, problem)
	})}
	go server.Serve(listener)
	defer server.Close()
	client := NewClient(socket)
	got, err := client.Members(context.Background())
	if err != nil || len(got) != 2 || got[0] != members[0] {
		t.Errorf("got %v, %v", got, err)
	}
	for _, want := range []error{ErrDuplicate, ErrNotYet} {
		problem = fmt.Errorf("%w: too many learners", want)
		if _, err := client.Add(context.Background(), "n", "p"); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	problem = errors.New("broken")
	if err := client.Remove(context.Background(), "n"); err == nil || err.Error() != "500 Internal Server Error: broken" {
		t.Errorf("got %v", err)
	}
}
