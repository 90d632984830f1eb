// Package process runs the components as child processes that die with their parent.
package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"k3sstandin/logs"
)

// Child is a running component.
type Child struct {
	Name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Component starts this program again under another name: the multi-call binary chooses the
// component by argv[0].
func Component(name string, arguments, environment []string) (*Child, error) {
	return Start(name, "/proc/self/exe", arguments, environment, os.Stderr)
}

// Start runs a program. The kernel kills the child when this process dies in any way; what the
// child leaves behind on purpose (containerd's shims) lives on.
func Start(name, path string, arguments, environment []string, output io.Writer) (*Child, error) {
	logs.Infof("Running %s %v", name, arguments)
	cmd := exec.Command(path, arguments...)
	cmd.Args[0] = name
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = output, output
	// A process group of its own: Ctrl-C in a terminal is for the parent, which stops the others.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}

	child := &Child{Name: name, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread that forked ends: keep it for the child's life.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			child.err = cmd.Wait()
			close(child.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return child, nil
}

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err says how the child ended.
func (c *Child) Err() error {
	if c.err == nil {
		return fmt.Errorf("%s exited", c.Name)
	}
	return fmt.Errorf("%s exited: %w", c.Name, c.err)
}

// Stop asks the child to end and kills it when the patience is over.
func (c *Child) Stop(patience time.Duration) {
	c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(patience):
		c.cmd.Process.Kill()
		<-c.done
	}
}
