package process

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAGroupReportsTheFirstEnd(t *testing.T) {
	group := NewGroup()
	if err := group.Add(Start("patient", "/bin/sleep", []string{"60"}, nil, io.Discard)); err != nil {
		t.Fatal(err)
	}
	if err := group.Add(Start("hasty", "/bin/sh", []string{"-c", "exit 3"}, nil, io.Discard)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-group.Failed():
		if err.Error() != "hasty exited: exit status 3" {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("no report")
	}
	begin := time.Now()
	group.Stop(5 * time.Second)
	if passed := time.Since(begin); passed > 3*time.Second {
		t.Errorf("stopping took %s", passed)
	}
}

func TestAStubbornChildIsKilled(t *testing.T) {
	child, err := Start("stubborn", "/bin/sh", []string{"-c", "trap '' TERM; while :; do sleep 1; done"}, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	child.Stop(200 * time.Millisecond)
	if !strings.Contains(child.Err().Error(), "killed") {
		t.Errorf("got %v", child.Err())
	}
}

func TestAMissingProgramIsAnErrorWithItsName(t *testing.T) {
	if _, err := Start("ghost", "/nonexistent", nil, nil, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "ghost: ") {
		t.Errorf("got %v", err)
	}
}

// The test starts itself as a parent that starts a child and is then killed.
func TestChildrenDieWithTheParent(t *testing.T) {
	if os.Getenv("STANDIN_TEST_PARENT") != "" {
		child, err := Start("child", "/bin/sleep", []string{"60"}, nil, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("child " + strconv.Itoa(child.cmd.Process.Pid) + "\n")
		select {}
	}
	parent := exec.Command(os.Args[0], "-test.run=TestChildrenDieWithTheParent")
	parent.Env = append(os.Environ(), "STANDIN_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64)
	count, err := out.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(buffer[:count]), "child ")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the child never lived: %v", err)
	}
	parent.Process.Kill()
	parent.Wait()
	for range 100 {
		if dead(pid) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the child outlived its parent")
}

func dead(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
