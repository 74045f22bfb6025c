package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// TestReplayToAFileShowsProgress: output that goes to a file is counted on the terminal, unless --quiet is given.
func TestReplayToAFileShowsProgress(t *testing.T) {
	t.Parallel()
	o := startOutliving(t)
	id := strings.TrimSpace(o.verbs(t)("run", "--detach", "--", "sh", "-c", "head -c 3000000 /dev/zero"))
	o.verbs(t)("wait", id)
	for _, verb := range []string{"logs", "follow"} {
		for _, quiet := range []bool{false, true} {
			args := []string{"reprise", verb, id}
			if quiet {
				args = append(args, "--quiet")
			}
			said, size := o.toAFile(t, args)
			if size != 3_000_000 {
				t.Errorf("%q: the file has %d bytes", args, size)
			}
			if got := strings.Contains(said, "of 2.9 MiB  100 %"); got == quiet {
				t.Errorf("%q: the terminal shows %q", args, said)
			}
		}
	}
}

// toAFile runs reprise with stdout in a file, and returns what it writes to the terminal that its stderr is.
func (o *outliving) toAFile(t *testing.T, args []string) (said string, size int64) {
	t.Helper()
	program, err := os.Executable()
	check(t, err)
	path := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(path)
	check(t, err)
	defer file.Close()
	master, slave, err := pty.Open()
	check(t, err)
	defer master.Close()
	cmd := &exec.Cmd{
		Path: program, Args: args, Stdout: file, Stderr: slave,
		Env: append(os.Environ(), "REPRISE_URL="+o.url(), "REPRISE_TOKEN="+o.token()),
	}
	check(t, cmd.Start())
	check(t, slave.Close())
	var shown bytes.Buffer
	_, _ = shown.ReadFrom(master) // to the error that says that nobody has the terminal any more
	check(t, cmd.Wait())
	info, err := os.Stat(path)
	check(t, err)
	return shown.String(), info.Size()
}
