package execution_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/screen"
	"reprise/store/memstore"
)

// winch prints the size of its terminal at the start and after each WINCH, until a file "go" is there.
const winch = `trap 'echo resized $(stty size)' WINCH; echo began $(stty size); while [ ! -e go ]; do sleep 0.01; done`

func TestTerminalIsResized(t *testing.T) {
	h := newHost(t, execution.Options{Dir: t.TempDir()})
	x := start(t, h, execution.Request{Command: winch, TTY: &execution.TTY{}})
	await(t, h, x.ID, "began 24 80")
	for range 2 { // the second time changes nothing
		if err := h.Resize(within(t), tenant, x.ID, execution.TTY{Cols: 100, Rows: 30}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, h, x.ID, "resized 30 100")
	if x, err := h.Show(within(t), tenant, x.ID); err != nil || *x.TTY != (execution.TTY{Cols: 100, Rows: 30}) {
		t.Errorf("shown as %+v, %v", x.TTY, err)
	}
	sh(t, h, "touch go")
	finish(t, h, x.ID)
	if err := h.Resize(within(t), tenant, x.ID, execution.TTY{Cols: 90, Rows: 30}); !errors.Is(err, reprise.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

func TestResizeIsRefused(t *testing.T) {
	h := newHost(t, execution.Options{MaxRunning: 1})
	plain := start(t, h, execution.Request{Command: "echo up; exec sleep 100"})
	await(t, h, plain.ID, "up")
	queued := start(t, h, execution.Request{Command: "exec sleep 100", TTY: &execution.TTY{}})
	for _, c := range []struct {
		id   string
		size execution.TTY
		want error
	}{
		{plain.ID, execution.TTY{Cols: 1, Rows: 1}, reprise.ErrConflict},
		{queued.ID, execution.TTY{Cols: 1, Rows: 1}, reprise.ErrConflict},
		{plain.ID, execution.TTY{Cols: 0, Rows: 1}, reprise.ErrInvalid},
		{plain.ID, execution.TTY{Cols: 1, Rows: 65536}, reprise.ErrInvalid},
		{"none", execution.TTY{Cols: 1, Rows: 1}, reprise.ErrNotFound},
	} {
		if err := h.Resize(within(t), tenant, c.id, c.size); !errors.Is(err, c.want) {
			t.Errorf("%s to %+v: %v, want %v", c.id, c.size, err, c.want)
		}
	}
}

// TestTerminalOutlivesItsServer: under a supervisor the size can be set before and after a restart of the server, which
// knows the size that its predecessor had set.
func TestTerminalOutlivesItsServer(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	opts := execution.Options{RunsDir: t.TempDir(), Dir: t.TempDir()}
	writer := func(h *execution.Host, offset int64, text string) {
		t.Helper()
		state, err := h.WriteStdin(within(t), tenant, "x",
			execution.StdinWrite{Writer: "w", Offset: offset, Data: strings.NewReader(text)})
		if want := offset + int64(len(text)); err != nil || state.Offset != want {
			t.Fatalf("%+v, %v, want offset %d", state, err, want)
		}
	}
	leave(t, log, opts, func(h *execution.Host) {
		start(t, h, execution.Request{
			ID: "x", Command: `read a; echo "got $a"; stty size; read a; echo "got $a"; stty size; read a; echo "got $a"`,
			TTY: &execution.TTY{}, StdinOpen: true,
		})
		writer(h, 0, "one\n")
		await(t, h, "x", "24 80")
		if err := h.Resize(within(t), tenant, "x", execution.TTY{Cols: 120, Rows: 40}); err != nil {
			t.Fatal(err)
		}
	})
	h := openHost(t, log, opts)
	until(t, "the size is known again", func() bool {
		x, err := h.Show(within(t), tenant, "x")
		return err == nil && x.TTY != nil && *x.TTY == execution.TTY{Cols: 120, Rows: 40}
	})
	writer(h, 0, "one\ntwo\n") // the first line again
	await(t, h, "x", "40 120")
	if err := h.Resize(within(t), tenant, "x", execution.TTY{Cols: 50, Rows: 10}); err != nil {
		t.Fatal(err)
	}
	writer(h, 8, "three\n")
	wantOutcome(t, finish(t, h, "x"), execution.Exited, 0, "")
	got := string(output(t, h, "x", execution.Stdout))
	if strings.Count(got, "got one\r\n") != 1 || !strings.Contains(got, "got three\r\n") {
		t.Errorf("output %q", got)
	}
	if err := h.Resize(within(t), tenant, "x", execution.TTY{Cols: 50, Rows: 10}); !errors.Is(err, reprise.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// TestTerminalThroughAnotherReplica resizes and types by the replica that does not run the command.
func TestTerminalThroughAnotherReplica(t *testing.T) {
	list := nodes(t, 2, execution.Options{})
	x := start(t, list[0].Host, execution.Request{
		Command: `echo up; read a; echo "got $a $(stty size)"`, TTY: &execution.TTY{}, StdinOpen: true,
	})
	await(t, list[1].Host, x.ID, "up")
	far := list[1].Host
	if err := far.Resize(within(t), tenant, x.ID, execution.TTY{Cols: 70, Rows: 20}); err != nil {
		t.Fatal(err)
	}
	if shown, err := far.Show(within(t), tenant, x.ID); err != nil ||
		*shown.TTY != (execution.TTY{Cols: 70, Rows: 20}) {
		t.Errorf("shown as %+v, %v", shown.TTY, err)
	}
	for i, text := range []string{"a", "ab", "abc\n"} {
		w := execution.StdinWrite{Writer: "w", Data: strings.NewReader(text)}
		if state, err := far.WriteStdin(within(t), tenant, x.ID, w); err != nil || state.Offset != int64(len(text)) {
			t.Errorf("write %d: %+v, %v", i, state, err)
		}
	}
	await(t, far, x.ID, "got abc 20 70")
}

// TestStdinOfSeveralWriters: each writer repeats its writes by its own count, whatever others write in between.
func TestStdinOfSeveralWriters(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: "cat", StdinOpen: true})
	for i, step := range []struct {
		writer string
		offset int64
		data   string
		want   execution.Stdin
		err    error
	}{
		{"a", 0, "aa", execution.Stdin{Offset: 2, Open: true}, nil},
		{"b", 0, "b", execution.Stdin{Offset: 1, Open: true}, nil},
		{"", 3, "-", execution.Stdin{Offset: 4, Open: true}, nil},
		{"a", 0, "aaA", execution.Stdin{Offset: 3, Open: true}, nil},
		{"b", 1, "B", execution.Stdin{Offset: 2, Open: true}, nil},
		{"b", 1, "B", execution.Stdin{Offset: 2, Open: true}, nil},
		{"b", 3, "x", execution.Stdin{Offset: 2, Open: true}, reprise.ErrConflict},
		{"c", 1, "x", execution.Stdin{Open: true}, reprise.ErrConflict},
		{"c", -1, "x", execution.Stdin{}, reprise.ErrInvalid},
		{"no name", 0, "x", execution.Stdin{}, reprise.ErrInvalid},
	} {
		w := execution.StdinWrite{Writer: step.writer, Offset: step.offset, Data: strings.NewReader(step.data)}
		got, err := h.WriteStdin(within(t), tenant, x.ID, w)
		if got != step.want || !errors.Is(err, step.err) {
			t.Errorf("step %d: %+v, %v; want %+v, %v", i, got, err, step.want, step.err)
		}
	}
	if _, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{Offset: 6, EOF: true}); err != nil {
		t.Fatal(err)
	}
	finish(t, h, x.ID)
	if got := string(output(t, h, x.ID, execution.Stdout)); got != "aab-AB" {
		t.Errorf("the command read %q", got)
	}
}

// TestTerminalThatNobodyReads: a write to a terminal whose command does not read can be called off.
func TestTerminalThatNobodyReads(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h,
		execution.Request{Command: "stty raw -echo; echo up; exec sleep 100", TTY: &execution.TTY{}, StdinOpen: true})
	await(t, h, x.ID, "up")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, io.ErrNoProgress)
	defer cancel()
	w := execution.StdinWrite{Writer: "w", Data: bytes.NewReader(bytes.Repeat([]byte("x"), 1<<20))}
	if state, err := h.WriteStdin(ctx, tenant, x.ID, w); !errors.Is(err, io.ErrNoProgress) || state.Offset == 1<<20 {
		t.Errorf("%+v, %v", state, err)
	}
}

// TestScreenGoesOnAtItsCursor: what is painted, and the events after the cursor, are what somebody sees who has
// watched from the start; here through another replica, while the command prints.
func TestScreenGoesOnAtItsCursor(t *testing.T) {
	list := nodes(t, 2, execution.Options{Dir: t.TempDir()})
	const command = `i=0; while [ $i -lt 3000 ]; do i=$((i+1)); printf '\033[%d;%dH\033[3%dm%d' $((i%24+1)) $((i*7%70)) $((i%8)) $i; done; printf '\033[?1049h\033[2;2Hlast'`
	x := start(t, list[0].Host, execution.Request{Command: command, TTY: &execution.TTY{}})
	watched, reader := screen.New(80, 24), reader(t, list[0].Host, x.ID)
	seen := map[string]string{}
	var ends bool
	for !ends {
		run, err := reader.Next(within(t))
		if ends = errors.Is(err, reprise.ErrEnded); err != nil && !ends {
			t.Fatal(err)
		}
		for e := range run.All() {
			if e.Type == execution.Stdout {
				_, _ = watched.Write(e.Data)
			}
		}
		if run.Len() > 0 {
			seen[seqOf(reader.Cursor().String())] = string(watched.Paint())
		}
		if len(seen)%50 == 1 {
			compareScreen(t, list[1].Host, x.ID, seen)
		}
	}
	compareScreen(t, list[1].Host, x.ID, seen)
	if drawn, err := list[1].Screen(within(t), tenant, x.ID, execution.TTY{}); err != nil || drawn.Text != "\n last" ||
		drawn.Cols != 80 || drawn.Rows != 24 {
		t.Errorf("at the end: %+v, %v", drawn, err)
	} else if got, want := seqOf(drawn.Cursor), seqOf(reader.Cursor().String()); got != want {
		t.Errorf("the screen at the end goes on at %s, want %s", got, want)
	}
}

// seqOf is the seq of a cursor, the rest of which is a secret of each replica here.
func seqOf(cursor string) string {
	seq, _, _ := strings.Cut(cursor, ".")
	return seq
}

// compareScreen asks for a screen, and compares it with what was seen where it ends, if somebody was there.
func compareScreen(t *testing.T, h *execution.Host, id string, seen map[string]string) {
	t.Helper()
	drawn, err := h.Screen(within(t), tenant, id, execution.TTY{})
	if err != nil {
		t.Fatal(err)
	}
	if want, ok := seen[seqOf(drawn.Cursor)]; ok && drawn.Paint != want {
		t.Errorf("the screen at %s:\n%q\nwant\n%q", drawn.Cursor, drawn.Paint, want)
	}
}

// TestScreenOfWhatIsKept: where the beginning is no longer kept, the screen is drawn from what is.
func TestScreenOfWhatIsKept(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{
		Command:   "seq 1 2000; sleep 0.1; echo last",
		TTY:       &execution.TTY{Cols: 10, Rows: 4},
		Retention: execution.Retention{MaxEvents: 2},
	})
	finishCut(t, h, x.ID)
	if drawn, err := h.Screen(within(t), tenant, x.ID, execution.TTY{}); err != nil ||
		!strings.HasSuffix(drawn.Text, "last") {
		t.Errorf("%+v, %v", drawn, err)
	}
}

// TestScreenOfHostileOutput: output each few bytes of which clear a large screen is not drawn to its end.
func TestScreenOfHostileOutput(t *testing.T) {
	if raced {
		t.Skip("the time of a drawing passes before its work is done: scripts/gotest plain runs this")
	}
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{
		Command: `stty -opost; head -c 2000000 /dev/zero | tr '\0' a | sed 's/aa/\x1bc/g'`,
		TTY:     &execution.TTY{Cols: 1000, Rows: 500},
	})
	finish(t, h, x.ID)
	if _, err := h.Screen(within(t), tenant, x.ID, execution.TTY{}); !errors.Is(err, execution.ErrCostly) {
		t.Errorf("the screen of hostile output: %v", err)
	}
	small, err := h.Screen(within(t), tenant, x.ID, execution.TTY{Cols: 2, Rows: 2})
	if err != nil || small.Text != "" {
		t.Errorf("a small screen: %+v, %v", small, err)
	}
	y := start(t, h, execution.Request{Command: "true", TTY: &execution.TTY{Cols: 1000, Rows: 500}})
	finish(t, h, y.ID)
	if large, err := h.Screen(within(t), tenant, y.ID, execution.TTY{}); err != nil || large.Cols*large.Rows > 1<<17 {
		t.Errorf("a large screen: %d columns, %d rows, %v", large.Cols, large.Rows, err)
	}
}
