// Package sdnotify tells systemd about the state of a Type=notify unit (sd_notify(3)).
package sdnotify

import (
	"net"
	"os"
	"strings"
)

// Notifier sends to the socket that systemd handed over; without one it does nothing.
type Notifier struct{ socket string }

// FromEnvironment takes NOTIFY_SOCKET out of the environment, so that no child process
// (kubelet and containerd notify too) can report in the name of the unit.
func FromEnvironment() Notifier {
	socket := os.Getenv("NOTIFY_SOCKET")
	os.Unsetenv("NOTIFY_SOCKET")
	return Notifier{socket: socket}
}

// Send sends assignments such as "READY=1" or "STATUS=...".
func (n Notifier) Send(assignments ...string) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(strings.Join(assignments, "\n")))
	return err
}
