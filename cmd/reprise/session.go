package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/client"
	"reprise/cmd/reprise/internal/detach"
	"reprise/cmd/reprise/internal/keyboard"
	"reprise/internal/backoff"
	"reprise/internal/problem"
)

// session connects the local terminal to that of a command on the server.
type session struct {
	server   *client.Client
	id       string
	terminal *terminal
	keys     detach.Keys
	readOnly bool // only the detach keys have an effect
	bridge   *bridge

	began   bool // the keyboard is read
	lost    bool // whether a connection was lost
	probing atomic.Bool
	bytes   int64 // of output shown, or contained in a shown screen
	end     *client.End
	leave   context.CancelCauseFunc // ends the session
	restart context.CancelCauseFunc // ends the current following, to continue from a screen
}

// The waits of an interactive client.
var interactive = client.Options{MinWait: 100 * time.Millisecond, MaxWait: 2 * time.Second}

// farBehind is the amount of missed output up to which a terminal catches up by reading. Beyond it, the last screen is
// shown.
const farBehind = 1 << 20

// probePause is the pause between two checks whether the server answers again.
const probePause = 500 * time.Millisecond

var (
	errDetached  = errors.New("detached")
	errFarBehind = errors.New("far behind")
)

// newSession returns a session and the context of its following.
func newSession(ctx context.Context, server *client.Client, id string,
	t *terminal, keys detach.Keys, q bridging,
) (*session, context.Context) {
	s := &session{server: server, id: id, terminal: t, keys: keys}
	var following context.Context
	s.bridge, following = q.newBridge(ctx, server.URL(), notices{t})
	lines := s.bridge.describe
	s.bridge.describe = func(d *client.Drop, next time.Duration) string {
		if !t.isRaw() {
			return lines(d, next)
		}
		text := "no connection since " + d.Since.Format(time.TimeOnly) + "; what you type is kept and sent then"
		if len(keys) > 0 {
			text += "; " + keys.String() + " detaches"
		}
		return text
	}
	return s, following
}

// hold takes the terminal while use runs, and restores it in any case.
func (s *session) hold(ctx context.Context, use func(ctx context.Context) error) error {
	defer s.terminal.restore()
	defer s.terminal.guard()
	ctx, s.leave = context.WithCancelCause(ctx)
	defer s.leave(context.Canceled)
	defer s.watchSignals(ctx)() // before the terminal is changed
	return use(ctx)
}

// events is a function that follows a command.
type events func(context.Context, *client.FollowOptions) iter.Seq2[client.Event, error]

// follow shows events until the end.
func (s *session) follow(ctx context.Context, events events) error {
	for {
		err := s.followOnce(ctx, events)
		if !errors.Is(err, errFarBehind) {
			return err
		}
		cursor, err := s.showScreenAgain(ctx)
		if err != nil {
			return err
		}
		events = s.after(cursor)
	}
}

// after follows the events after a cursor.
func (s *session) after(cursor string) events {
	return func(ctx context.Context, opts *client.FollowOptions) iter.Seq2[client.Event, error] {
		opts.After = cursor
		return s.server.Follow(ctx, s.id, opts)
	}
}

// followOnce follows until the end, or until so much was missed that the screen is shown instead.
func (s *session) followOnce(ctx context.Context, events events) error {
	following, restart := context.WithCancelCause(ctx)
	defer restart(context.Canceled)
	s.restart = restart
	opts := s.bridge.options(client.FollowOptions{})
	opts.OnDrop = func(d client.Drop) {
		s.lost = true
		s.bridge.dropped(d)
		if s.probing.CompareAndSwap(false, true) {
			go s.probe(ctx)
		}
	}
	opts.OnConnected = func() { s.connected(ctx) }
	for event, err := range events(following, opts) {
		switch {
		case err != nil:
			return err
		case event.Gap != nil:
			return errFarBehind // the missing output precedes the current screen
		case event.End != nil:
			s.end = event.End
		case event.Started != nil:
			if err := s.begin(ctx); err != nil {
				return err
			}
			go s.resize(ctx) // the size may have changed since the request
		case event.Type == "stdout":
			s.bytes += int64(len(event.Data))
			if _, err := s.terminal.Write(event.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

// connected is called when the connection works again.
func (s *session) connected(ctx context.Context) {
	s.bridge.connected()
	s.terminal.denotify()
	if !s.lost {
		return
	}
	s.lost = false
	ctx, cancel := context.WithTimeout(ctx, keyboard.Patience)
	defer cancel()
	if x, err := s.server.Show(ctx, s.id); err == nil && x.Bytes.Stdout-s.bytes > farBehind {
		s.restart(errFarBehind)
	}
}

// probe removes the notice of a lost connection as soon as the server answers. The connection of the events delivers
// nothing before an event or a heartbeat, which takes a while on a quiet terminal.
func (s *session) probe(ctx context.Context) {
	defer s.terminal.guard()
	defer s.probing.Store(false)
	for backoff.Sleep(ctx, probePause) == nil && s.bridge.down() {
		try, cancel := context.WithTimeout(ctx, keyboard.Patience)
		_, err := s.server.Show(try, s.id)
		cancel()
		if err == nil {
			s.bridge.connected()
			s.terminal.denotify()
			return
		}
	}
}

// showScreen shows the last screen and returns the position to continue from.
func (s *session) showScreen(ctx context.Context) (cursor string, err error) {
	x, err := s.server.Show(ctx, s.id)
	if err != nil {
		return "", err
	}
	screen, err := s.server.Screen(ctx, s.id, s.terminal.size())
	if err != nil {
		return "", err
	}
	s.bytes = x.Bytes.Stdout
	return screen.Cursor, s.terminal.show(&screen)
}

// showScreenAgain is showScreen for a running session. It retries while the server is unreachable. If there is no
// screen, it continues from the current position.
func (s *session) showScreenAgain(ctx context.Context) (cursor string, err error) {
	for {
		cursor, err = s.showScreen(ctx)
		if err == nil || ctx.Err() != nil || !undelivered(err) {
			return cursor, err
		}
		if p, _ := problem.As(err); p.Code != "" {
			return "tail", nil
		}
	}
}

// begin connects the terminal to the command and starts to send typed keys.
func (s *session) begin(ctx context.Context) error {
	if s.began {
		return nil
	}
	s.began = true
	if err := s.terminal.raw(); err != nil {
		return err
	}
	opts := keyboard.Options{
		Server: s.server, ID: s.id, Writer: strings.ToLower(rand.Text()), Refused: s.bell, Again: undelivered,
	}
	if s.readOnly {
		opts.Refused = func() {}
	}
	k := keyboard.New(opts)
	if s.readOnly {
		k.Close()
	} else {
		go func() {
			defer s.terminal.guard()
			if err := k.Send(ctx); err != nil {
				s.leave(err)
			}
		}()
	}
	go func() {
		defer s.terminal.guard()
		if k.Read(os.Stdin, s.keys) {
			s.leave(errDetached)
		}
	}()
	return nil
}

// bell signals that a key has no effect.
func (s *session) bell() { _, _ = s.terminal.out.WriteString("\a") }

// resize sets the size of the command's terminal to the local one. It retries until the server answers.
func (s *session) resize(ctx context.Context) {
	defer s.terminal.guard()
	if s.readOnly {
		return
	}
	for {
		size := s.terminal.size()
		try, cancel := context.WithTimeout(ctx, keyboard.Patience)
		err := s.server.Resize(try, s.id, size)
		cancel()
		switch {
		case ctx.Err() != nil, err == nil && s.terminal.size() == size:
			return
		case err == nil, undelivered(err), errors.Is(err, context.DeadlineExceeded):
		default: // the command has ended, or the server does not support it
			return
		}
	}
}

// watchSignals follows changes of the local terminal's size, and ends the session when the terminal is closed.
func (s *session) watchSignals(ctx context.Context) (stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, terminalSignals...)
	sized := make(chan struct{}, 1)
	over := make(chan struct{})
	go func() {
		defer s.terminal.guard()
		for {
			select {
			case got := <-signals:
				switch got {
				case hangup:
					s.leave(&exit{code: exitSignaled + 1, err: fmt.Errorf("the terminal was closed: %w", errDetached)})
				case proceed:
					s.terminal.again()
				}
				if s.terminal.isRaw() {
					s.terminal.resized(s.terminal.size())
				}
				select {
				case sized <- struct{}{}:
				default:
				}
			case <-over:
				return
			}
		}
	}()
	go func() {
		defer s.terminal.guard()
		for {
			select {
			case <-sized:
				s.resize(ctx)
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
	}
}

// outcome returns the error to exit with.
func (s *session) outcome(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errDetached):
		if e, ok := errors.AsType[*exit](err); ok {
			return e
		}
		s.terminal.freshLine()
		fmt.Fprintf(os.Stderr, "reprise: detached; \"reprise attach %s\" goes on\n", s.id)
		return nil
	case err != nil:
		s.terminal.freshLine()
		return err
	case s.end != nil:
		return outcome(s.end)
	}
	x, err := s.server.Show(ctx, s.id)
	if err != nil {
		return err
	}
	if x.Status != client.StatusEnded {
		return fmt.Errorf("%w: the end was not received", reprise.ErrUnavailable)
	}
	return outcome(endOf(&x))
}
