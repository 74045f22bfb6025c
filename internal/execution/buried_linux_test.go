package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/supervisor"
	"reprise/store/memstore"
)

// counter is a slog.Handler that counts the records with a message.
type counter struct {
	slog.Handler
	message string
	n       atomic.Int64
}

func newCounter(message string) *counter {
	return &counter{Handler: slog.DiscardHandler, message: message}
}

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	if r.Message == c.message {
		c.n.Add(1)
	}
	return nil
}

func (c *counter) WithAttrs([]slog.Attr) slog.Handler { return c }

// unread is what a Host logs that cannot read a spool.
const unread = "a spool cannot be read"

// leaveEnded lets a command print lines and end with code 3 while no Host is there, and then kills its supervisor. The
// stream of the execution, "x", has no more than its first line.
func leaveEnded(t *testing.T, opts execution.Options, lines int) (log *reprise.Log, dir, up string) {
	t.Helper()
	log = newLog(t, memstore.New(nil), nil)
	supervisorID := 0
	leave(t, log, opts, func(h *execution.Host) {
		start(t, h, execution.Request{
			ID: "x", Retention: execution.Retention{MaxBytes: 1 << 30, MaxEvents: 1 << 20},
			Command: fmt.Sprintf("echo up $PPID; while [ ! -e go ]; do sleep 0.01; done; seq 1 %d; exit 3", lines),
		})
		up = await(t, h, "x", "\n")
		var err error
		if supervisorID, err = strconv.Atoi(strings.Fields(up)[1]); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.WriteFile(filepath.Join(opts.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir = runDirs(t, opts)[0]
	until(t, "it ends without a server", func() bool {
		_, err := os.Stat(filepath.Join(dir, "end.json"))
		return err == nil
	})
	if err := syscall.Kill(supervisorID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "its supervisor is dead", func() bool {
		lock, err := supervisor.Lock(dir)
		return err == nil && lock.Close() == nil
	})
	return log, dir, up
}

// TestUnreadableSpoolOfDeadSupervisorIsReadAgain: while the system cannot read a file of a supervisor that was killed,
// the execution has no end. Then it has all of its output and its true end.
func TestUnreadableSpoolOfDeadSupervisorIsReadAgain(t *testing.T) {
	for _, name := range []string{"0000000000000001.spool", "end.json"} {
		t.Run(name, func(t *testing.T) {
			heard := newCounter(unread)
			opts := execution.Options{RunsDir: t.TempDir(), Dir: t.TempDir(), Logger: slog.New(heard)}
			const lines = 300_000
			log, dir, _ := leaveEnded(t, opts, lines)
			file := filepath.Join(dir, name)
			putAway(t, file)
			h := openHost(t, log, opts)
			until(t, "it was tried twice, or is over", func() bool { return heard.n.Load() >= 2 || hasEnd(t, h) })
			if hasEnd(t, h) {
				t.Error("it has an end")
			}
			putBack(t, file)
			x := finish(t, h, "x")
			wantOutcome(t, x, execution.Exited, 3, "")
			got := string(output(t, h, "x", execution.Stdout))
			if n := strings.Count(got, "\n"); n != lines+1 || x.OutputTruncated || x.Bytes.Stdout != int64(len(got)) {
				t.Errorf("%d lines, %+v", n, x)
			}
			until(t, "the directory is removed", func() bool { return len(runDirs(t, opts)) == 0 })
		})
	}
}

// TestDamageThatCannotBeRecordedIsReadAgain: a gap in the spool is recorded before the output behind it is appended.
// All of that output is there, also if the first tries to record the gap have failed.
func TestDamageThatCannotBeRecordedIsReadAgain(t *testing.T) {
	heard := newCounter(unread)
	opts := execution.Options{RunsDir: t.TempDir(), Dir: t.TempDir(), Logger: slog.New(heard)}
	const lines = 300_000
	log, dir, _ := leaveEnded(t, opts, lines)
	overwrite(t, filepath.Join(dir, "0000000000000001.spool"), 900_000)
	blocker := filepath.Join(dir, "shift.new")
	if err := os.Mkdir(blocker, 0o700); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, log, opts)
	until(t, "it was tried twice, or is over", func() bool { return heard.n.Load() >= 2 || hasEnd(t, h) })
	if err := os.Remove(blocker); err != nil {
		t.Error(err)
	}
	x := finish(t, h, "x")
	wantOutcome(t, x, execution.Exited, 3, "")
	got := string(output(t, h, "x", execution.Stdout))
	const printed, frame = 1_988_895, 32 << 10 // "seq 1 300000"
	if !strings.HasSuffix(got, fmt.Sprintf("\n%d\n", lines)) || len(got) < printed-2*frame || len(got) > printed ||
		!x.OutputTruncated {
		t.Errorf("%d bytes, %+v", len(got), x)
	}
}

// TestDamagedSpoolOfDeadSupervisor: files that a crash of the machine has damaged or cut short, although the end is
// there. The execution has that end, with output_truncated, and counts the output that is kept.
func TestDamagedSpoolOfDeadSupervisor(t *testing.T) {
	cut := func(size int64) func(t *testing.T, file string) {
		return func(t *testing.T, file string) {
			if err := os.Truncate(file, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, damage := range map[string]func(t *testing.T, file string){
		"bit flipped":    func(t *testing.T, file string) { overwrite(t, file, 900_000) },
		"cut in a frame": cut(900_000),
		"emptied":        cut(0),
		"last bit flipped": func(t *testing.T, file string) {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, file, info.Size()-1)
		},
		"deleted": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, older := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/older=%t", name, older), func(t *testing.T) {
				opts := execution.Options{RunsDir: t.TempDir(), Dir: t.TempDir()}
				log, dir, up := leaveEnded(t, opts, 300_000)
				damage(t, firstSegment(t, dir))
				if older {
					forgetTail(t, filepath.Join(dir, "end.json"))
				}
				h := openHost(t, log, opts)
				x := finish(t, h, "x")
				wantOutcome(t, x, execution.Exited, 3, "")
				got := string(output(t, h, "x", execution.Stdout))
				if !x.OutputTruncated || x.Bytes.Stdout != int64(len(got)) || !strings.HasPrefix(got, up) {
					t.Errorf("%d bytes of output, %+v", len(got), x)
				}
			})
		}
	}
}

// forgetTail makes the end of a supervisor that of an older one, which does not tell its last frame.
func forgetTail(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	end := map[string]any{}
	if err := json.Unmarshal(text, &end); err != nil || end["tail"] == nil {
		t.Fatalf("%s, %v", text, err)
	}
	delete(end, "tail")
	if text, err = json.Marshal(end); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// overwrite changes a byte of a file.
func overwrite(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// TestUnreadableSpoolOfDeadSupervisorIsCancelled: a cancel ends the wait for a spool that cannot be read.
func TestUnreadableSpoolOfDeadSupervisorIsCancelled(t *testing.T) {
	heard := newCounter(unread)
	opts := execution.Options{RunsDir: t.TempDir(), Dir: t.TempDir(), Logger: slog.New(heard)}
	log, dir, up := leaveEnded(t, opts, 1000)
	putAway(t, filepath.Join(dir, "0000000000000001.spool"))
	h := openHost(t, log, opts)
	until(t, "it was tried", func() bool { return heard.n.Load() >= 1 })
	if err := h.Cancel(within(t), tenant, "x"); err != nil {
		t.Fatal(err)
	}
	x := finish(t, h, "x")
	wantOutcome(t, x, execution.Exited, 3, "")
	if !x.OutputTruncated || x.Bytes.Stdout != int64(len(up)) {
		t.Errorf("%+v", x)
	}
}

// hasEnd reports whether the execution has its end.
func hasEnd(t *testing.T, h *execution.Host) bool {
	t.Helper()
	return status(t, h, "x") == execution.StatusEnded
}

// putAway puts a directory, which opens and cannot be read, in the place of a file, until putBack.
func putAway(t *testing.T, file string) {
	t.Helper()
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
}

// putBack undoes putAway. The two change places in one step, since a Host that looks meanwhile would take a missing
// file for one that was never written.
func putBack(t *testing.T, file string) {
	t.Helper()
	away := file + ".away"
	if err := unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, away, unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(away); err != nil {
		t.Fatal(err)
	}
}
