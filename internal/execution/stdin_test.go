package execution_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"reprise"
	"reprise/internal/execution"
)

func TestStdinIsEmptyUnlessGiven(t *testing.T) {
	h := newHost(t, execution.Options{})
	word, empty := "given\x00\xff", ""
	for name, c := range map[string]struct {
		req  execution.Request
		want string
	}{
		"none":   {execution.Request{}, ""},
		"empty":  {execution.Request{Stdin: &empty}, ""},
		"text":   {execution.Request{Stdin: &word}, word},
		"base64": {execution.Request{StdinBase64: []byte{0, 1, 255}}, "\x00\x01\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			c.req.Command = "cat"
			x := finish(t, h, start(t, h, c.req).ID)
			wantOutcome(t, x, execution.Exited, 0, "")
			if got := output(t, h, x.ID, execution.Stdout); string(got) != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestStdinByOffset sends everything twice, and from wrong places.
func TestStdinByOffset(t *testing.T) {
	h := newHost(t, execution.Options{})
	first, goOn := "ab", filepath.Join(t.TempDir(), "go")
	x := start(t, h, execution.Request{ // it may not end before everything was sent twice
		Command: "cat; until [ -e " + goOn + " ]; do sleep 0.01; done", Stdin: &first, StdinOpen: true,
	})
	write := func(offset int64, data string, eof bool) (execution.Stdin, error) {
		return h.WriteStdin(within(t), tenant, x.ID,
			execution.StdinWrite{Offset: offset, Data: strings.NewReader(data), EOF: eof})
	}
	for _, step := range []struct {
		offset int64
		data   string
		eof    bool
		want   execution.Stdin
		err    error
	}{
		{2, "cde", false, execution.Stdin{Offset: 5, Open: true}, nil},
		{2, "cde", false, execution.Stdin{Offset: 5, Open: true}, nil},
		{0, "abcdefg", false, execution.Stdin{Offset: 7, Open: true}, nil},
		{8, "x", false, execution.Stdin{Offset: 7, Open: true}, reprise.ErrConflict},
		{-1, "h", false, execution.Stdin{Offset: 8, Open: true}, nil},
		{8, "ij", true, execution.Stdin{Offset: 10}, nil},
		{8, "ij", true, execution.Stdin{Offset: 10}, nil},
	} {
		got, err := write(step.offset, step.data, step.eof)
		if got != step.want || !errors.Is(err, step.err) {
			t.Errorf("offset %d, %q: %+v, %v; want %+v, %v", step.offset, step.data, got, err, step.want, step.err)
		}
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x = finish(t, h, x.ID)
	if got := output(t, h, x.ID, execution.Stdout); string(got) != "abcdefghij" {
		t.Errorf("the command read %q", got)
	}
	if _, err := write(10, "k", false); !errors.Is(err, reprise.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

func TestStdinAfterItsEnd(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: "cat; echo read; exec sleep 100", StdinOpen: true})
	_, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{Data: strings.NewReader("a"), EOF: true})
	if err != nil {
		t.Fatal(err)
	}
	await(t, h, x.ID, "read")
	for _, offset := range []int64{-1, 0, 1} {
		if _, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{
			Offset: offset,
			Data:   strings.NewReader("ab"),
		}); !errors.Is(err, reprise.ErrEnded) {
			t.Errorf("offset %d after the end of stdin: %v", offset, err)
		}
	}
	closed := start(t, h, execution.Request{Command: "exec sleep 100"})
	if _, err := h.WriteStdin(within(t), tenant, closed.ID, execution.StdinWrite{
		Data: strings.NewReader("a"),
	}); !errors.Is(err, reprise.ErrEnded) {
		t.Errorf("stdin that was not opened: %v", err)
	}
}

// readsOneByte is the beginning of a command: it says when the first byte of its stdin is there, and takes no more.
const readsOneByte = "dd bs=1 count=1 of=/dev/null 2>/dev/null; echo got one; "

// TestStdinWaitsForTheReader fills the pipe of a command that does not read: the write
// waits, says how far it came when it is called off, and goes on from there.
func TestStdinWaitsForTheReader(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h,
		execution.Request{Command: readsOneByte + "while ! test -e go; do sleep 0.01; done; wc -c", StdinOpen: true})
	data := bytes.Repeat([]byte("0123456789"), 400_000)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var at execution.Stdin
	written := make(chan error, 1)
	go func() {
		var err error
		at, err = h.WriteStdin(ctx, tenant, x.ID, execution.StdinWrite{Data: bytes.NewReader(data)})
		written <- err
	}()
	await(t, h, x.ID, "got one")
	cancel(io.ErrNoProgress)
	if err := <-written; !errors.Is(err, io.ErrNoProgress) || at.Offset == 0 || at.Offset == int64(len(data)) {
		t.Fatalf("%+v, %v", at, err)
	}
	sh(t, h, "touch go")
	at, err := h.WriteStdin(within(t), tenant, x.ID,
		execution.StdinWrite{Offset: at.Offset, Data: bytes.NewReader(data[at.Offset:]), EOF: true})
	if err != nil || at.Offset != int64(len(data)) {
		t.Fatalf("%+v, %v", at, err)
	}
	if got := await(t, h, x.ID, "3999999"); got == "" {
		t.Error("nothing was read")
	}
}

func TestStdinIsLetGoByTheEnd(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: "echo up; exec sleep 100", StdinOpen: true})
	await(t, h, x.ID, "up")
	result := make(chan error, 1)
	go func() {
		_, err := h.WriteStdin(t.Context(), tenant, x.ID,
			execution.StdinWrite{Data: bytes.NewReader(make([]byte, 8<<20))})
		result <- err
	}()
	if err := h.Cancel(within(t), tenant, x.ID); err != nil {
		t.Fatal(err)
	}
	finish(t, h, x.ID)
	select {
	case err := <-result:
		if !errors.Is(err, reprise.ErrEnded) {
			t.Errorf("the write: %v", err)
		}
	case <-within(t).Done():
		t.Error("the write still waits")
	}
}

func TestStdinOfABrokenBody(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: "cat", StdinOpen: true})
	broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF))
	at, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{Data: broken})
	if !errors.Is(err, reprise.ErrInvalid) || !errors.Is(err, io.ErrUnexpectedEOF) ||
		at != (execution.Stdin{Offset: 4, Open: true}) {
		t.Fatalf("%+v, %v", at, err)
	}
	if _, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{
		Data: strings.NewReader("half and half"),
		EOF:  true,
	}); err != nil {
		t.Fatal(err)
	}
	x = finish(t, h, x.ID)
	if got := output(t, h, x.ID, execution.Stdout); string(got) != "half and half" {
		t.Errorf("the command read %q", got)
	}
}

// lastWords gives text, and the end of it only when an execution has ended.
type lastWords struct {
	text  string
	ended func()
}

func (l *lastWords) Read(p []byte) (int, error) {
	if l.text == "" {
		l.ended()
		return 0, io.EOF
	}
	n := copy(p, l.text)
	l.text = l.text[n:]
	return n, nil
}

// TestStdinOfCommandThatEndsBeforeTheEnd: a command that has read all that it was given may end before its stdin is
// closed. The write has succeeded all the same.
func TestStdinOfCommandThatEndsBeforeTheEnd(t *testing.T) {
	t.Parallel() // it waits most of the time
	check := func(t *testing.T, owner, at *execution.Host) {
		x := start(t, owner, execution.Request{Command: "read line; echo got $line", StdinOpen: true})
		state, err := at.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{
			Offset: -1, EOF: true, Data: &lastWords{"hello\n", func() { finish(t, owner, x.ID) }},
		})
		if err != nil || state != (execution.Stdin{Offset: 6}) {
			t.Errorf("%+v, %v", state, err)
		}
		if got := output(t, owner, x.ID, execution.Stdout); string(got) != "got hello\n" {
			t.Errorf("output %q", got)
		}
	}
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		h := newHost(t, opts)
		check(t, h, h)
	})
	t.Run("another replica", func(t *testing.T) {
		list := nodes(t, 2, execution.Options{})
		check(t, list[0].Host, list[1].Host)
	})
}
