package sdnotify

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheSocketIsTakenOutOfTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	notifier := FromEnvironment()
	if left, present := os.LookupEnv("NOTIFY_SOCKET"); present {
		t.Errorf("children would see %q", left)
	}
	if err := notifier.Send("READY=1", "STATUS=x"); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64)
	listener.SetReadDeadline(time.Now().Add(5 * time.Second))
	count, err := listener.Read(buffer)
	if err != nil || string(buffer[:count]) != "READY=1\nSTATUS=x" {
		t.Errorf("got %q, %v", buffer[:count], err)
	}
}

func TestWithoutSystemdNothingHappens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := FromEnvironment().Send("READY=1"); err != nil {
		t.Error(err)
	}
}
