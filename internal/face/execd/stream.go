package execd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/web"
	"reprise/internal/wire"
)

// event is one event of a response that goes on.
type event struct {
	Type           string                     `json:"type"`
	Text           string                     `json:"text,omitempty"`
	Timestamp      int64                      `json:"timestamp"` // Unix, in ms
	ExecutionTime  int64                      `json:"execution_time,omitempty"`
	ExecutionCount int                        `json:"execution_count,omitempty"`
	Results        map[string]json.RawMessage `json:"results,omitempty"` // by MIME type
	Error          *eventError                `json:"error,omitempty"`
	EID            int64                      `json:"eid,omitempty"`
	// Execution is the id of the execution that the init event begins, which the SDKs do not read.
	Execution string `json:"execution_id,omitempty"`
}

type eventError struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// kind is what is different between the responses.
type kind int

const (
	// ofCommand sends the lines of both channels, an empty one as "\n".
	ofCommand kind = iota
	// ofSession sends the lines of both channels as stdout, and no empty ones.
	ofSession
	// ofCode sends text as it comes.
	ofCode
)

// labelKind is the label of the executions that are no commands.
const labelKind = "execd"

// kindOf returns the kind of the response of an execution.
func kindOf(e *execution.Execution) kind {
	switch e.Labels[labelKind] {
	case "session":
		return ofSession
	case "code":
		return ofCode
	}
	return ofCommand
}

// pingEvery is how often a client is sent a sign of life.
const pingEvery = 3 * time.Second

// stream writes the events of an execution as a client of execd reads them.
type stream struct {
	x    *web.Exchange
	out  *web.SteadyWriter
	kind kind
	// sse: frames have the fields of server-sent events, with the eid as their id. Otherwise they are bare JSON.
	sse bool
	// after is the eid of the last event that the client has, eid the one of the last event that was made.
	after, eid     int64
	stdout, stderr lines
	thrown         *eventError // by the code
	frames         bytes.Buffer
}

// begin sends the head of the response.
func begin(x *web.Exchange, k kind) *stream {
	s := &stream{x: x, kind: k, out: x.Steady(true)}
	s.sse = x.R.URL.Query().Get("framing") == "sse" || x.R.Header.Get(lastEventID) != ""
	h := x.W.Header()
	h.Set("Content-Type", web.SSE)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	x.AllowWrite()
	x.W.WriteHeader(http.StatusOK)
	return s
}

const lastEventID = "Last-Event-ID"

// add makes the frame of an event.
func (s *stream) add(e *event) {
	if e.EID != 0 && e.EID <= s.after {
		return
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // the results are JSON
	}
	if s.sse {
		if e.EID != 0 {
			s.frames.WriteString("id: " + strconv.FormatInt(e.EID, 10) + "\n")
		}
		s.frames.WriteString("data: ")
	}
	s.frames.Write(reprise.AppendJSONLine(nil, text))
	s.frames.WriteString("\n\n")
}

// send sends the frames.
func (s *stream) send() error {
	_, err := s.out.Write(s.frames.Bytes())
	s.frames.Reset()
	return err
}

// number returns the next eid.
func (s *stream) number() int64 {
	s.eid++
	return s.eid
}

// errLost ends a response whose next events are no longer kept.
var errLost = errors.New("output is no longer kept")

// follow sends the events of an execution from the first one to its end. A response that cannot be finished is cut, so
// that no client takes it for whole.
func (s *stream) follow(on *reprise.Stream) {
	ctx := s.x.R.Context()
	err := s.run(ctx, on)
	if errors.Is(err, errLost) || errors.Is(err, reprise.ErrExpired) {
		s.add(&event{Type: "error", Timestamp: time.Now().UnixMilli(), Error: &eventError{
			Name: "OutputLost", Value: err.Error(), Traceback: []string{"the response was read too slowly"},
		}})
		err = s.send()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (s *stream) run(ctx context.Context, on *reprise.Stream) error {
	reader, err := on.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	if reader.Cursor().Seq > 0 {
		return errLost
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	s.ping(time.Now())
	for {
		changed := reader.Changed()
		events, err := reader.Poll(ctx)
		if errors.Is(err, reprise.ErrEnded) {
			return s.send()
		}
		if err != nil {
			return err
		}
		if events.Len() > 0 {
			for e := range events.All() {
				s.take(&e)
			}
			changed = nil
		}
		if s.frames.Len() > 0 {
			if err := s.send(); err != nil {
				return err
			}
		}
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case now := <-ping.C:
			s.ping(now)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *stream) ping(now time.Time) {
	s.add(&event{Type: "ping", Text: "pong", Timestamp: now.UnixMilli()})
}

// take makes the frames of an event of the execution.
func (s *stream) take(e *reprise.Event) {
	at := e.Time.UnixMilli()
	switch e.Type {
	case execution.Stdout:
		s.output(&s.stdout, e)
	case execution.Stderr:
		s.output(&s.stderr, e)
	case "result", "display":
		s.result(e)
	case "exception":
		var told struct {
			Name      string   `json:"name"`
			Value     string   `json:"value"`
			Traceback []string `json:"traceback"`
		}
		if json.Unmarshal(e.Data, &told) == nil {
			s.thrown = &eventError{told.Name, told.Value, told.Traceback}
		}
	case reprise.TypeEnd:
		s.stdout.end(func(text []byte) { s.line(execution.Stdout, at, text) })
		s.stderr.end(func(text []byte) { s.line(execution.Stderr, at, text) })
		s.end(e)
	}
}

func (s *stream) output(l *lines, e *reprise.Event) {
	at := e.Time.UnixMilli()
	if s.kind != ofCode {
		l.feed(e.Data, func(text []byte) { s.line(e.Type, at, text) })
		return
	}
	l.pending = append(l.pending, e.Data...)
	if n := whole(l.pending); n > 0 {
		s.line(e.Type, at, l.pending[:n])
		l.pending = append(l.pending[:0], l.pending[n:]...)
	}
}

// line makes the frame of one line of a channel.
func (s *stream) line(channel string, at int64, text []byte) {
	if s.kind == ofSession {
		channel = execution.Stdout
	}
	if len(text) == 0 {
		if s.kind != ofCommand {
			return
		}
		text = []byte("\n")
	}
	s.add(&event{Type: channel, Text: string(text), Timestamp: at, EID: s.number()})
}

// result makes the frame of a value of the code.
func (s *stream) result(e *reprise.Event) {
	var value struct {
		MIME map[string]json.RawMessage `json:"mime"`
	}
	if json.Unmarshal(e.Data, &value) != nil {
		return
	}
	if text, ok := value.MIME["text/plain"]; ok {
		delete(value.MIME, "text/plain")
		value.MIME["text"] = text
	}
	s.add(&event{Type: "result", Results: value.MIME, Timestamp: e.Time.UnixMilli(), EID: s.number()})
}

// end makes the last frame: success, or an error for everything else.
func (s *stream) end(e *reprise.Event) {
	var how wire.Ending
	_ = json.Unmarshal(e.Data, &how) // the server wrote it
	last := &event{Timestamp: e.Time.UnixMilli(), EID: s.number()}
	if how.Outcome == execution.Exited && how.ExitCode != nil && *how.ExitCode == 0 && s.thrown == nil {
		last.Type, last.ExecutionTime = "execution_complete", how.DurationMS
	} else {
		last.Type, last.Error = "error", s.thrown
		if last.Error == nil {
			last.Error = failure(&how)
		}
	}
	s.add(last)
}

// failure describes a run that has not succeeded. Its value is the exit code, if there is one: the SDKs read it as a
// number.
func failure(how *wire.Ending) *eventError {
	e := &eventError{Name: "CommandExecError", Value: "-1"}
	switch {
	case how.Outcome == execution.Exited && how.ExitCode != nil:
		e.Value = strconv.Itoa(*how.ExitCode)
		e.Traceback = []string{"exit status " + e.Value}
	case how.Outcome == execution.FailedToStart:
		e.Value = how.Error
		e.Traceback = []string{"failed to start"}
	case how.Outcome == execution.Lost:
		e.Value = "the server lost the command: how it ended is unknown"
		e.Traceback = []string{how.Error}
	default:
		e.Traceback = []string{reason(how)}
	}
	return e
}

// reason says why a run was ended.
func reason(how *wire.Ending) string {
	text := string(how.Outcome)
	if how.Signal != nil {
		text += fmt.Sprintf(": signal %s", *how.Signal)
	}
	if how.Limit != "" {
		text += ": " + how.Limit
	}
	if how.Error != "" {
		text += ": " + how.Error
	}
	return text
}
