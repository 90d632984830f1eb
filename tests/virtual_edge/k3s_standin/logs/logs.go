// Package logs writes log lines in the format of k3s (logrus text):
//
//	time="2026-01-02T03:04:05Z" level=info msg="..."
package logs

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

var (
	mutex sync.Mutex
	out   io.Writer = os.Stderr
)

// Infof writes a line of level info.
func Infof(format string, args ...any) { write("info", format, args) }

// Warnf writes a line of level warning.
func Warnf(format string, args ...any) { write("warning", format, args) }

// Errorf writes a line of level error.
func Errorf(format string, args ...any) { write("error", format, args) }

// Fatalf writes a line of level fatal and ends the program with status 1.
func Fatalf(format string, args ...any) {
	write("fatal", format, args)
	os.Exit(1)
}

func write(level, format string, args []any) {
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Fprintf(out, "time=%q level=%s msg=%q\n",
		time.Now().UTC().Format(time.RFC3339), level, fmt.Sprintf(format, args...))
}
