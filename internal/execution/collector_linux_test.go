package execution_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"reprise/internal/execution"
	"reprise/internal/isolation"
	"reprise/store/memstore"
)

// TestArtifactsAreWhatTheCommandReads: a file that a level keeps from a command is not kept for it.
func TestArtifactsAreWhatTheCommandReads(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "artifacts-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("another's"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, execution.Options{})
	for _, level := range append(levels, isolation.None) {
		t.Run(string(level), func(t *testing.T) {
			given(t, level)
			x := finish(t, h, start(t, h, execution.Request{
				Command: "cat " + file, Cwd: "/", Isolation: string(level), Artifacts: []string{file[1:], "etc/passwd"},
			}).ID)
			paths, text := artifacts(t, h, x)
			reads := *x.ExitCode == 0
			if !slices.Contains(paths, "etc/passwd") || slices.Contains(paths, file[1:]) != reads ||
				strings.Contains(text, "another's") != reads {
				t.Errorf("the command reads it: %t; kept are %q, notes %q", reads, paths, x.ArtifactNotes)
			}
			if reads != (level == isolation.Limits || level == isolation.None) {
				t.Errorf("the command reads it: %t", reads)
			}
		})
	}
}

// TestArtifactsOfAnotherUser: they are read with the rights of the command's user.
func TestArtifactsOfAnotherUser(t *testing.T) {
	_, as := anotherUser(t)
	dir, err := os.MkdirTemp("/var/tmp", "artifacts-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "closed"), []byte("of root"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "in"), 0o700),
		os.WriteFile(filepath.Join(dir, "in", "side"), []byte("of root"), 0o644),
		os.Chmod(dir, 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, level := range append(levels, isolation.None) {
		t.Run(string(level), func(t *testing.T) {
			given(t, level)
			trees(t, func(t *testing.T, opts execution.Options) {
				opts.Isolation = isolation.Config{User: as}
				h := newHost(t, opts)
				x := finish(t, h, start(t, h, execution.Request{
					Command: "echo own >own; rm -f link; ln -s closed link", Cwd: dir, Isolation: string(level),
					Artifacts: []string{"own", "closed", "in", "link"},
				}).ID)
				wantOutcome(t, x, execution.Exited, 0, "")
				if paths, text := artifacts(t, h, x); !slices.Equal(paths, []string{"own"}) || text != "own\n" {
					t.Errorf("%q with %q, notes %q", paths, text, x.ArtifactNotes)
				}
				_ = os.Remove(filepath.Join(dir, "own"))
			})
		})
	}
}

// collectors are the collectors that this process has started and that live.
func collectors(t *testing.T) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		var pid int
		line, err := os.ReadFile(dir + "/cmdline")
		if _, scanErr := fmt.Sscanf(dir, "/proc/%d", &pid); err != nil || scanErr != nil ||
			!bytes.Equal(line, []byte("reprise-collector\x00")) {
			continue
		}
		status, _ := os.ReadFile(dir + "/status")
		if strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestCollectorThatHangs: a collector that is stopped, as one is that waits for a dead file system, is left at a
// cancellation, and one that is killed is reported. The outcome of the execution stays.
func TestCollectorThatHangs(t *testing.T) {
	defer execution.PatientForTest()()
	for what, c := range map[string]struct {
		signal syscall.Signal
		note   string
	}{"stopped": {syscall.SIGSTOP, "was cancelled while"}, "killed": {syscall.SIGKILL, "the collector has ended"}} {
		t.Run(what, func(t *testing.T) {
			store := &stuck{Store: memstore.New(nil), reached: make(chan struct{}, 1), let: make(chan struct{})}
			h := openHost(t, newLog(t, store, nil), execution.Options{Dir: t.TempDir()})
			x := start(t, h, execution.Request{
				Command: "head -c 16000000 /dev/zero >f; exit 3", Artifacts: []string{"f"},
			})
			select {
			case <-store.reached: // the collector waits now until its chunks are taken
			case <-within(t).Done():
				t.Fatal("nothing is collected")
			}
			pids := collectors(t)
			if len(pids) != 1 {
				t.Fatalf("collectors %v", pids)
			}
			if err := syscall.Kill(pids[0], c.signal); err != nil {
				t.Fatal(err)
			}
			close(store.let)
			if c.signal == syscall.SIGSTOP {
				if err := h.Cancel(within(t), tenant, x.ID); err != nil {
					t.Fatal(err)
				}
			}
			x = finish(t, h, x.ID)
			wantOutcome(t, x, execution.Exited, 3, "")
			if len(x.Artifacts) > 0 || len(x.ArtifactNotes) != 1 || !strings.Contains(x.ArtifactNotes[0], c.note) {
				t.Errorf("files %+v, notes %q", x.Artifacts, x.ArtifactNotes)
			}
			until(t, "no collector is left", func() bool { return len(collectors(t)) == 0 })
		})
	}
}
