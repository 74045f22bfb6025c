package e2b

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/tracecontext"
	"reprise/internal/web"
	"reprise/internal/wire"
)

// idPrefix begins the ids of the executions that are processes; the number of the process is behind it.
const idPrefix = "e2b-"

// idOf returns the id of the execution that is a process.
func idOf(pid uint32) string { return idPrefix + strconv.FormatUint(uint64(pid), 10) }

// pidOf is the inverse of idOf.
func pidOf(id string) (pid uint32, ok bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(id, idPrefix), 10, 31)
	return uint32(n), err == nil && idOf(uint32(n)) == id
}

// selector names a process.
type selector struct {
	PID *uint32 `json:"pid"`
	Tag *string `json:"tag"`
}

// id returns the id of the execution.
func (s *selector) id() (string, error) {
	if s.Tag != nil {
		return "", &refusal{codeMissing, "processes are found by their number, not by a tag"}
	}
	if s.PID == nil {
		return "", invalid("process: the number of a process is needed")
	}
	return idOf(*s.PID), nil
}

type processConfig struct {
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args"`
	Envs map[string]string `json:"envs"`
	Cwd  string            `json:"cwd,omitempty"`
}

type terminal struct {
	Size struct {
		Cols int `json:"cols"`
		Rows int `json:"rows"`
	} `json:"size"`
}

type startRequest struct {
	Process processConfig `json:"process"`
	Pty     *terminal     `json:"pty"`
	Tag     *string       `json:"tag"`
	Stdin   *bool         `json:"stdin"`
}

// The events of a process. Exactly one member of an event is set.
type (
	message struct {
		Event processEvent `json:"event"`
	}
	processEvent struct {
		Start     *startEvent `json:"start,omitempty"`
		Data      *dataEvent  `json:"data,omitempty"`
		End       *endEvent   `json:"end,omitempty"`
		KeepAlive *nothing    `json:"keepalive,omitempty"`
	}
	startEvent struct {
		PID uint32 `json:"pid"`
	}
	dataEvent struct {
		Stdout []byte `json:"stdout,omitempty"`
		Stderr []byte `json:"stderr,omitempty"`
		Pty    []byte `json:"pty,omitempty"`
	}
	endEvent struct {
		ExitCode int    `json:"exitCode"`
		Exited   bool   `json:"exited"`
		Status   string `json:"status"`
		Error    string `json:"error,omitempty"`
	}
)

// defaultUser is the user that the SDKs name for commands without one.
const defaultUser = "user"

// session returns the session that the sandbox of a request is, "" for none.
func session(x *web.Exchange) string {
	id := x.R.Header.Get(sandboxHeader)
	if (&execution.Request{ID: "x", Session: id, Argv: []string{"x"}}).Validate() != nil {
		return ""
	}
	return id
}

// execution returns the request as one of ours.
func (a API) execution(x *web.Exchange, q *startRequest) (req execution.Request, err error) {
	switch {
	case q.Process.Cmd == "":
		return req, invalid("process: cmd is needed")
	case q.Tag != nil && *q.Tag != "":
		return req, &refusal{codeMissing, "a process has no tag here"}
	}
	req = execution.Request{
		Argv: append([]string{q.Process.Cmd}, q.Process.Args...), Env: q.Process.Envs, Cwd: a.absolute(q.Process.Cwd),
		StdinOpen: q.Stdin == nil || *q.Stdin, Session: session(x),
	}
	if q.Pty != nil {
		req.TTY = &execution.TTY{Cols: q.Pty.Size.Cols, Rows: q.Pty.Size.Rows}
		req.StdinOpen = true
	}
	if user := x.R.Header.Get(userHeader); user != "" && user != defaultUser {
		if err := x.Needs(identity.ScopeAdmin); err != nil {
			return req, err
		}
		req.User = user
	}
	trace := tracecontext.Of(x.R.Header)
	req.TraceParent, req.TraceState = trace.Parent, trace.State
	return req, nil
}

// start starts a process and answers with its events.
func (a API) start(x *web.Exchange) error {
	var q startRequest
	if err := decodeStream(x, &q); err != nil {
		return err
	}
	req, err := a.execution(x, &q)
	if err != nil {
		return err
	}
	for _, scope := range []identity.Scope{identity.ScopeRun, identity.ScopeRead} {
		if err := x.MayMake(scope, req.Session, "session"); err != nil {
			return err
		}
	}
	if err := a.Reads.Enter(x); err != nil {
		return err
	}
	e, err := a.startNumbered(x, req)
	if err != nil {
		return err
	}
	on, err := a.Host.Stream(x.R.Context(), x.Who.Tenant, e.ID)
	if err != nil {
		return err
	}
	return a.follow(x, &e, on, reprise.Earliest(), seen{})
}

// maxTries bounds how often a number is drawn that another process has.
const maxTries = 8

// startNumbered starts an execution under a number that no other process of the tenant has.
func (a API) startNumbered(x *web.Exchange, req execution.Request) (execution.Execution, error) {
	for range maxTries {
		req.ID = idOf(uint32(rand.Int32N(1<<31-1000) + 1000))
		e, created, err := a.Host.StartFor(x.R.Context(), x.Who.Holder(), req)
		if errors.Is(err, reprise.ErrConflict) || err == nil && !created {
			continue
		}
		if err == nil {
			x.W.Header().Set("Execution-Id", e.ID)
			x.Record().Execution = e.ID
			x.Made("/v1/executions/" + e.ID)
		}
		return e, err
	}
	return execution.Execution{}, fmt.Errorf("%w: no free number for a process was found", reprise.ErrUnavailable)
}

// seen is how many bytes of each channel a client has. All says that it wants what it has not seen.
type seen struct {
	all            bool
	stdout, stderr int64
}

// afterHeader says what a client has seen, in place of the path.
const afterHeader = "X-Reprise-After"

// parseSeen reads "start", or the bytes of stdout and, after a comma, of stderr that a client has seen.
func parseSeen(text string) (s seen, err error) {
	if text == "" || text == "live" {
		return seen{}, nil
	}
	s.all = true
	if text == "start" {
		return s, nil
	}
	stdout, stderr, both := strings.Cut(text, ",")
	s.stdout, err = strconv.ParseInt(stdout, 10, 64)
	if err == nil && both {
		s.stderr, err = strconv.ParseInt(stderr, 10, 64)
	}
	if err != nil || s.stdout < 0 || s.stderr < 0 {
		return s, invalid("%s: start, or the bytes of stdout and stderr that were seen, such as 1200,30", afterHeader)
	}
	return s, nil
}

// skip returns what of data is not seen yet.
func (s *seen) skip(channel string, data []byte) []byte {
	left := &s.stdout
	if channel == execution.Stderr {
		left = &s.stderr
	}
	n := min(*left, int64(len(data)))
	*left -= n
	return data[n:]
}

// errLost refuses output that is no longer kept.
var errLost = &refusal{codeRange, "the first output is no longer kept; read what is left by the id of the execution"}

// connect answers with the events of a process: those to come or, for a client that says what it has seen, all others.
// The end is among them if the process has ended.
func (a API) connect(x *web.Exchange) error {
	var q struct {
		Process selector `json:"process"`
	}
	if err := decodeStream(x, &q); err != nil {
		return err
	}
	id, err := q.Process.id()
	if err != nil {
		return err
	}
	after := x.R.PathValue("seen")
	if after == "" {
		after = x.R.Header.Get(afterHeader)
	}
	has, err := parseSeen(after)
	if err != nil {
		return err
	}
	if err := a.grants().MayRead(x, id); err != nil {
		return err
	}
	e, err := a.Host.Show(x.R.Context(), x.Who.Tenant, id)
	if err != nil {
		return err
	}
	if err := a.Reads.Enter(x); err != nil {
		return err
	}
	on, err := a.Host.Stream(x.R.Context(), x.Who.Tenant, id)
	if err != nil {
		return err
	}
	info, err := on.Info(x.R.Context())
	if err != nil {
		return err
	}
	at := reprise.After(on.Cursor(info.Tail))
	switch {
	case has.all && info.Earliest > 1:
		return errLost
	case has.all:
		at = reprise.Earliest()
	case info.End != nil:
		at = reprise.After(on.Cursor(info.Tail - 1))
	}
	return a.follow(x, &e, on, at, has)
}

// follow sends the events of an execution from a position to its end. A response that cannot be finished is cut, so
// that no client takes it for whole.
func (a API) follow(x *web.Exchange, e *execution.Execution, on *reprise.Stream, at reprise.Position, has seen) error {
	reader, err := on.Reader(x.R.Context(), at)
	if err != nil {
		return err
	}
	defer reader.Close()
	x.EndWithServer()
	x.EndWithConnection()
	pid, _ := pidOf(e.ID)
	s := begin(x)
	err = s.send(message{processEvent{Start: &startEvent{pid}}})
	if err == nil {
		err = each(x.R.Context(), reader, s.keepAlive, func(event *reprise.Event) error {
			return s.event(event, e.TTY != nil, &has)
		}, func() error { return s.send(message{processEvent{KeepAlive: &nothing{}}}) })
	}
	if err == nil {
		err = s.end(nil)
	}
	if _, lost := errors.AsType[*reprise.WindowError](err); lost {
		err = s.end(errLost)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// event sends an event of the execution, if the client reads such ones.
func (s *sender) event(e *reprise.Event, tty bool, has *seen) error {
	var data dataEvent
	switch e.Type {
	case execution.Stdout, execution.Stderr:
		part := has.skip(e.Type, e.Data)
		switch {
		case len(part) == 0:
			return nil
		case tty:
			data.Pty = part
		case e.Type == execution.Stdout:
			data.Stdout = part
		default:
			data.Stderr = part
		}
		return s.send(message{processEvent{Data: &data}})
	case reprise.TypeEnd:
		var how wire.Ending
		_ = json.Unmarshal(e.Data, &how) // the server wrote it
		return s.send(message{processEvent{End: endOf(&how)}})
	}
	return nil
}

// endOf describes how a process has ended. Everything but an exit has the code -1, which no SDK takes for success.
func endOf(how *wire.Ending) *endEvent {
	if how.Outcome == execution.Exited && how.ExitCode != nil {
		end := &endEvent{ExitCode: *how.ExitCode, Exited: true, Status: fmt.Sprintf("exit status %d", *how.ExitCode)}
		if *how.ExitCode != 0 {
			end.Error = end.Status
		}
		return end
	}
	text := strings.ReplaceAll(string(how.Outcome), "_", " ")
	switch {
	case how.Signal != nil:
		text += ": SIG" + *how.Signal
	case how.Limit != "":
		text += ": " + how.Limit
	}
	if how.Error != "" {
		text += ": " + how.Error
	}
	return &endEvent{ExitCode: -1, Status: text, Error: text}
}

type processInfo struct {
	Config processConfig `json:"config"`
	PID    uint32        `json:"pid"`
}

// listProcesses answers with the processes that have not ended, of the sandbox if the request names one.
func (a API) listProcesses(x *web.Exchange, _ *nothing) (any, error) {
	list := []processInfo{}
	for _, status := range []string{execution.StatusQueued, execution.StatusRunning} {
		q := execution.ListQuery{Session: session(x), Status: status, Allowed: grants.Sessions(x), Limit: 1000}
		for {
			page, err := a.Host.List(x.R.Context(), x.Who.Tenant, q)
			if err != nil {
				return nil, err
			}
			for i := range page.Executions {
				e := &page.Executions[i]
				if pid, ours := pidOf(e.ID); ours {
					config := processConfig{e.Argv[0], e.Argv[1:], map[string]string{}, e.Cwd}
					list = append(list, processInfo{config, pid})
				}
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
	}
	return map[string]any{"processes": list}, nil
}

// use returns the id of a process that the sender may use and that has not ended.
func (a API) use(x *web.Exchange, scope identity.Scope, s *selector) (string, error) {
	id, err := s.id()
	if err == nil {
		err = a.grants().MayUse(x, scope, id)
	}
	return id, err
}

// ended gives an error of a process that has ended the code that envd has for it.
func ended(err error) error {
	if errors.Is(err, reprise.ErrEnded) {
		return &refusal{codeNotFound, "the process has ended"}
	}
	return err
}

func (a API) update(x *web.Exchange, q *struct {
	Process selector  `json:"process"`
	Pty     *terminal `json:"pty"`
},
) (any, error) {
	id, err := a.use(x, identity.ScopeRun, &q.Process)
	if err != nil || q.Pty == nil {
		return nothing{}, err
	}
	size := execution.TTY{Cols: q.Pty.Size.Cols, Rows: q.Pty.Size.Rows}
	return nothing{}, ended(a.Host.Resize(x.R.Context(), x.Who.Tenant, id, size))
}

// signals are the signals by their names and numbers in the protocol.
var signals = map[string]string{
	`"SIGNAL_SIGTERM"`: "TERM", "15": "TERM", `"SIGNAL_SIGKILL"`: "KILL", "9": "KILL",
}

func (a API) sendSignal(x *web.Exchange, q *struct {
	Process selector        `json:"process"`
	Signal  json.RawMessage `json:"signal"`
},
) (any, error) {
	id, err := a.use(x, identity.ScopeControl, &q.Process)
	if err != nil {
		return nil, err
	}
	name, ok := signals[string(q.Signal)]
	if !ok {
		return nil, invalid("signal: SIGNAL_SIGTERM or SIGNAL_SIGKILL is taken")
	}
	e, err := a.Host.Show(x.R.Context(), x.Who.Tenant, id)
	switch {
	case err != nil:
	case e.Status != execution.StatusEnded && e.Started.IsZero(): // both signals end what was not started yet
		err = a.Host.Cancel(x.R.Context(), x.Who.Tenant, id)
	default:
		err = a.Host.Signal(x.R.Context(), x.Who.Tenant, id, name)
	}
	return nothing{}, ended(err)
}
