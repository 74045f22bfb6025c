package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"reprise/client"
	"reprise/internal/screen"
)

// terminal is the one that we run in, while a command on the server has it.
type terminal struct {
	in, out *os.File
	turn    chan struct{} // holds a token while somebody writes

	stateMu sync.Mutex
	state   *term.State // as it was before; nil while it is ours

	drawn atomic.Bool // something of the command was shown

	// What follows is whose turn it is.
	screen *screen.Screen
	// placed: what is seen is screen, row for row. Without it the command began somewhere on the terminal.
	placed bool
	bar    bool // there is a notice on the first row
}

// leavePatience is how long restore waits for a write that does not end.
const leavePatience = time.Second

// openTerminal returns our terminal, or nil if stdin or stdout is none.
func openTerminal() *terminal {
	t := &terminal{in: os.Stdin, out: os.Stdout, turn: make(chan struct{}, 1)}
	if !isTerminalFile(t.in) || !isTerminalFile(t.out) {
		return nil
	}
	size := t.size()
	t.screen = screen.New(size.Cols, size.Rows)
	return t
}

// size is that of the terminal now.
func (t *terminal) size() client.TTY {
	cols, rows, err := term.GetSize(int(t.out.Fd()))
	if err != nil || cols < 1 || rows < 1 {
		return client.TTY{Cols: 80, Rows: 24}
	}
	return client.TTY{Cols: cols, Rows: rows}
}

// raw passes all keys on, Ctrl-C too. It may be called again.
func (t *terminal) raw() error {
	t.stateMu.Lock()
	defer t.stateMu.Unlock()
	state, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	if t.state == nil {
		t.state = state
	}
	return nil
}

// isRaw reports whether the command has the terminal.
func (t *terminal) isRaw() bool {
	t.stateMu.Lock()
	defer t.stateMu.Unlock()
	return t.state != nil
}

// restore gives the terminal back as it was. It may be called again, and from any goroutine.
func (t *terminal) restore() {
	t.stateMu.Lock()
	defer t.stateMu.Unlock()
	if t.state != nil {
		_ = term.Restore(int(t.in.Fd()), t.state)
		t.state = nil
	}
	if !t.drawn.Swap(false) {
		return
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-time.After(leavePatience):
	}
	b := t.screen.Leave()
	if t.bar {
		b = append(t.withoutBar(), b...)
	}
	_, _ = t.out.Write(b)
}

// freshLine makes what we say begin a line, after the terminal was restored.
func (t *terminal) freshLine() {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.screen.Column() > 0 {
		_, _ = t.out.WriteString("\n")
	}
}

// guard restores the terminal before a panic ends us. It is deferred by every goroutine of ours.
func (t *terminal) guard() {
	if p := recover(); p != nil {
		t.restore()
		panic(p)
	}
}

// Write shows what the command has written.
func (t *terminal) Write(p []byte) (int, error) {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	t.drawn.Store(true)
	n, err := t.out.Write(p)
	_, _ = t.screen.Write(p)
	return n, err
}

// show makes the terminal show a screen of the server.
func (t *terminal) show(s *client.Screen) error {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	t.drawn.Store(true)
	t.screen = screen.New(s.Cols, s.Rows)
	_, _ = t.screen.Write([]byte(s.Paint))
	size := t.size()
	t.placed, t.bar = size.Cols == s.Cols && size.Rows == s.Rows, false
	// What is there now goes where it can be scrolled back to.
	_, err := t.out.WriteString(strings.Repeat("\n", size.Rows) + s.Paint)
	return err
}

// resized takes note of a new size. Terminals wrap the lines of the main screen again.
func (t *terminal) resized(size client.TTY) {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	t.screen.Resize(size.Cols, size.Rows)
	t.placed = false
}

// again makes the terminal ours again after we were stopped and somebody else had it.
func (t *terminal) again() {
	if !t.isRaw() || t.raw() != nil {
		return
	}
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.onScreen() {
		_, _ = t.out.Write(t.screen.Paint())
	}
}

// onScreen reports whether we know what is where on the terminal.
func (t *terminal) onScreen() bool { return t.placed || t.screen.Alternate() }

// notify says something to the person at the terminal: on the first row, where what is there can be drawn again, or
// else on a line between those of the command.
func (t *terminal) notify(text string) {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if !t.onScreen() {
		line := []byte("\r\n[reprise: " + text + "]\r\n")
		_, _ = t.out.Write(line)
		_, _ = t.screen.Write(line)
		return
	}
	cols, _ := t.screen.Size()
	if text = " reprise: " + text; len(text) > cols {
		text = text[:cols]
	}
	b := []byte("\x1b[?6l\x1b[?7l\x1b[4l\x1b(B\x0f\x1b[1;1H\x1b[0;7m")
	b = append(b, text...)
	b = append(b, bytes.Repeat([]byte{' '}, cols-len(text))...)
	_, _ = t.out.Write(t.screen.PaintCursor(append(b, "\x1b[0m"...)))
	t.bar = true
}

// denotify takes the notice from the first row.
func (t *terminal) denotify() {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.bar {
		_, _ = t.out.Write(t.withoutBar())
	}
}

// withoutBar is what draws the first row as it was. It is the turn of the caller.
func (t *terminal) withoutBar() []byte {
	t.bar = false
	return t.screen.PaintCursor(t.screen.PaintRow(nil, 0))
}

// notices is where lines for people go: to stderr, or into the terminal while the command has it.
type notices struct{ terminal *terminal }

func (n notices) Write(p []byte) (int, error) {
	if !n.terminal.isRaw() {
		return os.Stderr.Write(p)
	}
	n.terminal.notify(strings.TrimPrefix(strings.TrimRight(string(p), "\n"), "reprise: "))
	return len(p), nil
}
