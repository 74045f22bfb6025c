package clienttest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Command is a command to a service.
type Command struct {
	Do        string   `json:"do"`
	ID        string   `json:"id"`
	URL       string   `json:"url,omitempty"`
	Token     string   `json:"token,omitempty"`
	Stream    string   `json:"stream,omitempty"`
	Execution string   `json:"execution,omitempty"`
	Source    string   `json:"source,omitempty"`
	After     string   `json:"after,omitempty"`
	Types     []string `json:"types,omitempty"`
	Gap       string   `json:"gap,omitempty"`
	MinWaitMS int      `json:"min_wait_ms,omitempty"`
	MaxWaitMS int      `json:"max_wait_ms,omitempty"`
	IdleMS    int      `json:"idle_ms,omitempty"`
	Argv      []string `json:"argv,omitempty"`
	Detach    bool     `json:"detach,omitempty"`
	Count     int      `json:"count,omitempty"`
	AtOnce    int      `json:"at_once,omitempty"`
}

// Hello is a service's description of itself.
type Hello struct {
	Name string   `json:"name"`
	Kind string   `json:"kind"`
	Can  []string `json:"can"`
}

// The kinds of services.
const (
	KindReprise = "reprise"
	KindSSE     = "sse"
)

// Event is an event that a client was given.
type Event struct {
	Seq    uint64          `json:"seq,omitempty"`
	Cursor string          `json:"cursor"`
	Type   string          `json:"type"`
	Data   []byte          `json:"data,omitempty"`
	JSON   json.RawMessage `json:"json,omitempty"`
}

// Gap is a gap that a client has reported.
type Gap struct {
	Code   string `json:"code"`
	Missed uint64 `json:"missed"`
	// TakenBack is set after epoch_changed.
	TakenBack uint64 `json:"taken_back,omitempty"`
}

// Failure is the reason for which a client has given up.
type Failure struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

func (f *Failure) Error() string { return fmt.Sprintf("%s (code %q)", f.Text, f.Code) }

// Message is a line of a service's output.
type Message struct {
	ID    string   `json:"id,omitempty"`
	Hello *Hello   `json:"hello,omitempty"`
	Event *Event   `json:"event,omitempty"`
	Gap   *Gap     `json:"gap,omitempty"`
	Error *Failure `json:"error,omitempty"`
	Done  bool     `json:"done,omitempty"`
}

// service is a running service.
type service struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	hello Hello

	mu     sync.Mutex
	made   int
	tasks  map[string]*task
	ended  error // why there are no more lines
	killed bool

	patience time.Duration
	stderr   tail
	scanned  chan struct{}
}

// startService starts a service and waits for its hello.
func startService(ctx context.Context, opts *Options, server *server) (*service, error) {
	command := opts.Command
	s := &service{
		tasks: map[string]*task{}, scanned: make(chan struct{}), patience: cmp.Or(opts.Patience, 3*time.Minute),
	}
	s.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	s.cmd.Stderr, s.cmd.Env = &s.stderr, append(os.Environ(), server.certificate.environment()...)
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	hello := make(chan Hello, 1)
	go s.read(stdout, hello)
	select {
	case s.hello = <-hello:
		return s, nil
	case <-s.scanned:
		err = fmt.Errorf("it ended without a hello: %w", s.ended)
	case <-time.After(2 * time.Minute):
		err = errors.New("no hello within two minutes")
	}
	s.kill()
	return nil, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, s.stderr.String())
}

// maxLine bounds a line of a service.
const maxLine = 64 << 20

func (s *service) read(stdout io.Reader, hello chan<- Hello) {
	defer close(s.scanned)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		var m Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			s.end(fmt.Errorf("a line that is no JSON: %.200q", lines.Text()))
			_, _ = io.Copy(io.Discard, stdout)
			return
		}
		if m.Hello != nil {
			hello <- *m.Hello
			continue
		}
		s.mu.Lock()
		t := s.tasks[m.ID]
		s.mu.Unlock()
		if t == nil {
			s.end(fmt.Errorf("a line about no command: %.200q", lines.Text()))
			_, _ = io.Copy(io.Discard, stdout)
			return
		}
		t.take(m)
	}
	s.end(errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}

// end fails all commands.
func (s *service) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = err
	for _, t := range s.tasks {
		t.fail(err)
	}
}

// do sends a command.
func (s *service) do(c Command) *task {
	s.mu.Lock()
	s.made++
	c.ID = strconv.Itoa(s.made)
	t := &task{service: s, command: c, sse: s.hello.Kind == KindSSE, news: make(chan struct{}, 1)}
	s.tasks[c.ID] = t
	err := s.ended
	s.mu.Unlock()
	if err != nil {
		t.fail(err)
		return t
	}
	s.write(c)
	return t
}

func (s *service) write(c Command) {
	line, err := json.Marshal(c)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, err = s.stdin.Write(append(line, '\n'))
	}
	_ = err // a failed write means that the service has ended, which read reports
}

// close ends the service's input and returns an error if it does not end properly.
func (s *service) close() error {
	if s.killed {
		return nil
	}
	_ = s.stdin.Close()
	done := make(chan error, 1)
	go func() {
		<-s.scanned
		done <- s.cmd.Wait()
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("at the end of stdin: %w\n%s", err, s.stderr.String())
		}
		return nil
	case <-time.After(2 * time.Minute):
		_ = s.cmd.Process.Kill()
		<-done
		return errors.New("it does not exit within two minutes of the end of stdin")
	}
}

// kill kills the service with SIGKILL.
func (s *service) kill() {
	s.killed = true
	_ = s.cmd.Process.Kill()
	<-s.scanned
	_ = s.cmd.Wait()
}

// task is a command and its results.
type task struct {
	service *service
	command Command
	sse     bool
	news    chan struct{}

	mu     sync.Mutex
	events []Event
	gaps   []Gap
	errs   []*Failure
	done   bool
	broken error // of the service
}

func (t *task) take(m Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.done:
		t.broken = errors.New("there are lines after done")
	case m.Event != nil:
		if t.sse {
			m.Event.decode()
		}
		t.events = append(t.events, *m.Event)
	case m.Gap != nil:
		t.gaps = append(t.gaps, *m.Gap)
	case m.Error != nil:
		t.errs = append(t.errs, m.Error)
	case m.Done:
		t.done = true
	}
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// decode converts an event in the wire format, whose data is the server's JSON.
func (e *Event) decode() {
	var w struct {
		Seq    uint64          `json:"seq"`
		Text   *string         `json:"text"`
		Base64 []byte          `json:"base64"`
		Data   json.RawMessage `json:"data"`
	}
	if json.Unmarshal(e.Data, &w) != nil {
		return // reported as a missing event
	}
	object := e.Data
	e.Seq, e.Data = w.Seq, w.Base64
	switch {
	case w.Text != nil:
		e.Data = []byte(*w.Text)
	case w.Data != nil && e.Type != "end":
		e.JSON = w.Data
	case w.Base64 == nil:
		e.JSON = object
	}
}

func (t *task) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return
	}
	t.broken, t.done = fmt.Errorf("the service: %w", err), true
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// stop ends the command.
func (t *task) stop() { t.service.write(Command{Do: "stop", ID: t.command.ID}) }

// errWaited is the error of a wait that has taken longer than Options.Patience.
var errWaited = errors.New("waited in vain")

// until waits until ok, which is called with t.mu held, returns true.
func (t *task) until(what string, ok func() bool) error {
	deadline := time.After(t.service.patience)
	for {
		t.mu.Lock()
		is, err := ok(), t.broken
		t.mu.Unlock()
		if is || err != nil {
			return err
		}
		select {
		case <-t.news:
		case <-deadline:
			t.mu.Lock()
			defer t.mu.Unlock()
			return fmt.Errorf("%w: no %s within %v; %d events so far",
				errWaited, what, t.service.patience, len(t.events))
		}
	}
}

// wait waits until the command is done.
func (t *task) wait() error { return t.until("end", func() bool { return t.done }) }

// count waits for n events.
func (t *task) count(n int) error {
	return t.until(fmt.Sprintf("%d events", n), func() bool { return len(t.events) >= n || t.done })
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-4096):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
