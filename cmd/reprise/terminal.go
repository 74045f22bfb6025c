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

// terminal is the local terminal while a command on the server uses it.
type terminal struct {
	in, out *os.File
	turn    chan struct{} // holds a token during a write

	stateMu sync.Mutex
	state   *term.State // the original state; nil while it is not raw

	drawn atomic.Bool // whether output of the command was shown

	// The fields below belong to the holder of turn.
	screen *screen.Screen
	// placed means that the visible rows are those of screen. Otherwise the command began in the middle of the
	// terminal.
	placed bool
	bar    bool // whether a notice is on the first row
}

// leavePatience bounds the wait of restore for a blocked write.
const leavePatience = time.Second

// openTerminal returns the local terminal, or nil if stdin or stdout is not a terminal.
func openTerminal() *terminal {
	t := &terminal{in: os.Stdin, out: os.Stdout, turn: make(chan struct{}, 1)}
	if !isTerminalFile(t.in) || !isTerminalFile(t.out) {
		return nil
	}
	size := t.size()
	t.screen = screen.New(size.Cols, size.Rows)
	return t
}

// size returns the current size of the terminal.
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

// isRaw reports whether the command uses the terminal.
func (t *terminal) isRaw() bool {
	t.stateMu.Lock()
	defer t.stateMu.Unlock()
	return t.state != nil
}

// restore resets the terminal to its original state. It may be called again, and from any goroutine.
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

// freshLine starts a new line after the terminal was restored.
func (t *terminal) freshLine() {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.screen.Column() > 0 {
		_, _ = t.out.WriteString("\n")
	}
}

// guard restores the terminal before a panic ends the process. Every goroutine of the session defers it.
func (t *terminal) guard() {
	if p := recover(); p != nil {
		t.restore()
		panic(p)
	}
}

// Write shows output of the command.
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
	// Scroll the present contents up, so that they can be scrolled back to.
	_, err := t.out.WriteString(strings.Repeat("\n", size.Rows) + s.Paint)
	return err
}

// resized applies a new size. Terminals rewrap the lines of the main screen.
func (t *terminal) resized(size client.TTY) {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	t.screen.Resize(size.Cols, size.Rows)
	t.placed = false
}

// again makes the terminal raw again after the process was stopped and continued.
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

// onScreen reports whether the contents of the terminal are known.
func (t *terminal) onScreen() bool { return t.placed || t.screen.Alternate() }

// notify shows a notice: on the first row if its contents can be redrawn, and otherwise on a line between the output.
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

// denotify removes the notice from the first row.
func (t *terminal) denotify() {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.bar {
		_, _ = t.out.Write(t.withoutBar())
	}
}

// withoutBar returns the text that redraws the first row. The caller has the turn.
func (t *terminal) withoutBar() []byte {
	t.bar = false
	return t.screen.PaintCursor(t.screen.PaintRow(nil, 0))
}

// notices is the destination of lines for people: stderr, or the terminal while the command uses it.
type notices struct{ terminal *terminal }

func (n notices) Write(p []byte) (int, error) {
	if !n.terminal.isRaw() {
		return os.Stderr.Write(p)
	}
	n.terminal.notify(strings.TrimPrefix(strings.TrimRight(string(p), "\n"), "reprise: "))
	return len(p), nil
}
