package execution_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/shared"
	"reprise/replica"
	"reprise/store/memstore"
)

// TestInterpreterOutlivesTheServer: while there is no server the code goes on, and the next server has all of it, once,
// with its end and what was declared.
func TestInterpreterOutlivesTheServer(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	dir := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), Dir: dir}
	leave(t, log, opts, func(h *execution.Host) {
		openInterpreter(t, h, interpreter.Request{Language: "bash", ID: "goes"})
		openInterpreter(t, h, interpreter.Request{Language: "bash", ID: "exits"})
		openInterpreter(t, h, interpreter.Request{Language: "bash", ID: "waits"})
		runCode(t, h, "goes", "x=41")
		runCode(t, h, "waits", "x=7")
		give1 := func(interpreter, id, code string) {
			start(t, h, execution.Request{Interpreter: interpreter, ID: id, Code: code})
			await(t, h, id, "one")
		}
		give1("goes", "a", "echo one; while [ ! -e go ]; do sleep 0.01; done; seq 1 20000; echo $x; (exit 5)")
		give1("exits", "b", "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 6")
	})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, log, opts)
	var want strings.Builder
	want.WriteString("one\n")
	for n := 1; n <= 20000; n++ {
		fmt.Fprintln(&want, n)
	}
	want.WriteString("41\n")
	a := ended(t, h, "a")
	wantOutcome(t, a.Execution, execution.Exited, 5, "")
	if a.stdout != want.String() {
		t.Errorf("%d bytes, want %d", len(a.stdout), want.Len())
	}
	b := ended(t, h, "b")
	wantOutcome(t, b.Execution, execution.Exited, 6, "")
	if b.stdout != "one\ntwo\n" {
		t.Errorf("%q", b.stdout)
	}
	if r := runCode(t, h, "goes", "echo $((x + 1))"); r.stdout != "42\n" {
		t.Errorf("%+v", r)
	}
	if r := runCode(t, h, "waits", "echo $x"); r.stdout != "7\n" {
		t.Errorf("%+v", r)
	}
	if i, err := interpreter.Show(longWithin(t), h, tenant, "goes"); err != nil || *i.Runs != 3 {
		t.Errorf("%+v, %v", i, err)
	}
}

// TestOutputCutTwiceIsStoredOnce: a server is killed after it appended to the stream of the code and before it recorded
// that. Its successor cuts the same output again and appends none of it twice.
func TestOutputCutTwiceIsStoredOnce(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	dir := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), Dir: dir}
	touch := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var notes string
	var before []byte
	leave(t, log, opts, func(h *execution.Host) {
		openInterpreter(t, h, interpreter.Request{Language: "bash", ID: "i"})
		start(t, h, execution.Request{Interpreter: "i", ID: "x", Code: "echo one; while [ ! -e two ]; do sleep 0.01; done; seq 2 2000; echo more; " +
			"while [ ! -e end ]; do sleep 0.01; done; echo last; (exit 4)"})
		await(t, h, "x", "one")
		notes = filepath.Join(runDirs(t, opts)[0], "interpreter.json")
		until(t, "it is noted", func() bool {
			before, _ = os.ReadFile(notes)
			return strings.Contains(string(before), `"seq":`) && !strings.Contains(string(before), `"seq":0`)
		})
		touch("two")
		await(t, h, "x", "more")
	})
	if err := os.WriteFile(notes, before, 0o600); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, log, opts)
	touch("end")
	r := ended(t, h, "x")
	wantOutcome(t, r.Execution, execution.Exited, 4, "")
	if lines := strings.Count(r.stdout, "\n"); lines != 2002 || !strings.HasPrefix(r.stdout, "one\n2\n3\n") ||
		!strings.HasSuffix(r.stdout, "\n2000\nmore\nlast\n") {
		t.Errorf("%d lines, want 2002", lines)
	}
}

// TestLateInterpreterLeavesNoCode: a replica comes back while another one ends its interpreter as lost. That one dies
// before it has ended the code too. The code then ends as lost, and its interpreter does not adopt it.
func TestLateInterpreterLeavesNoCode(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	other := newLog(t, hub.Store(), nil)
	opts := execution.Options{RunsDir: t.TempDir()}
	incarnation := func(store *cuttable) *node {
		nd := &node{store: store}
		nd.open(t, &replica.Options{Name: "back", Beat: testBeat, TTL: longTTL}, opts)
		return nd
	}
	nd := incarnation(newCuttable(hub.Store()))
	openInterpreter(t, nd.Host, interpreter.Request{Language: "bash", ID: "i"})
	start(t, nd.Host, execution.Request{Interpreter: "i", ID: "code", Code: "echo up; sleep 100"})
	await(t, nd.Host, "code", "up")
	name := nd.member.Name()
	if _, err := nd.Leave(); err != nil {
		t.Fatal(err)
	}
	nd.member.Vanish()

	back := newCuttable(hub.Store())
	lose := func(q reprise.ListQuery, page reprise.ListPage) {
		for _, info := range page.Streams {
			if q.AllNamespaces || info.Key.Name != "execution:i" || info.End != nil {
				continue
			}
			back.listed.Store(nil)
			s, err := other.Stream(t.Context(), info.Key)
			if err != nil {
				t.Error(err)
				return
			}
			by := reprise.AppendOptions{Owner: reprise.Owner{Name: "other", Fence: info.Owner.Fence + 1}}
			lost := reprise.Event{Format: reprise.FormatMembers, Data: []byte(`{"outcome":"lost"}`)}
			if _, err := s.EndWith(t.Context(), by, string(execution.Lost), lost); err != nil {
				t.Error(err)
			}
		}
	}
	back.listed.Store(&lose)
	nd = incarnation(back)
	if back.listed.Load() != nil {
		t.Fatal("the interpreter was not adopted")
	}
	nd.buries(t, name)
	wantOutcome(t, finish(t, nd.Host, "code"), execution.Lost, -1, "")
	if err := nd.Remove(within(t), tenant, "code"); err != nil {
		t.Error(err)
	}
	until(t, "the directories are removed", func() bool { return len(runDirs(t, opts)) == 0 })
	if counts := nd.Counts(); counts != (execution.Counts{}) {
		t.Errorf("%+v", counts)
	}
}
