package execd

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/identity"
	"reprise/internal/tracecontext"
	"reprise/internal/web"
)

// grace is the time between TERM and KILL of an interrupted command.
const grace = 3 * time.Second

type commandRequest struct {
	Command    string            `json:"command"`
	Argv       []string          `json:"argv"`
	Cwd        string            `json:"cwd"`
	Background bool              `json:"background"`
	Timeout    *int64            `json:"timeout"` // in ms
	UID        *uint32           `json:"uid"`
	GID        *uint32           `json:"gid"`
	Envs       map[string]string `json:"envs"`
}

// runtimePort is the variable in which the SDK of the code interpreter looks for the port of the runtime, on loopback.
// It is the server's.
const runtimePort = "JUPYTER_PORT"

// execution returns the request as one of ours.
func (a API) execution(x *web.Exchange, q *commandRequest) (req execution.Request, err error) {
	switch {
	case (q.Command == "") == (len(q.Argv) == 0):
		return req, badBody("exactly one of command and argv is needed")
	case q.GID != nil && (q.UID == nil || !isGroupOf(*q.UID, *q.GID)):
		return req, badBody("gid: a command has the group of its user, which uid names")
	}
	env := map[string]string{}
	if at, ok := x.R.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		env[runtimePort] = strconv.Itoa(at.Port)
	}
	maps.Copy(env, q.Envs)
	req = execution.Request{
		Command: q.Command, Argv: q.Argv, Env: env, Cwd: a.directory(q.Cwd, q.Envs), Grace: execution.Duration(grace),
	}
	if q.Command != "" {
		req.Shell = a.Shell
	}
	if req.Timeout, err = timeout(q.Timeout); err != nil {
		return req, err
	}
	if q.UID != nil {
		req.User = strconv.FormatUint(uint64(*q.UID), 10)
	}
	return req, nil
}

// isGroupOf reports whether a group belongs to a user.
func isGroupOf(uid, gid uint32) bool {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	return err == nil && u.Gid == strconv.FormatUint(uint64(gid), 10)
}

// timeout converts a number of milliseconds.
func timeout(ms *int64) (execution.Duration, error) {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	switch {
	case ms == nil || *ms == 0:
		return 0, nil
	case *ms < 0 || *ms > most:
		return 0, badBody("timeout: a positive number of milliseconds is taken")
	}
	return execution.Duration(*ms) * execution.Duration(time.Millisecond), nil
}

// directory returns the directory of a command. $NAME stands for a variable of the request.
func (a API) directory(cwd string, env map[string]string) string {
	return os.Expand(a.fromHome(cwd), func(name string) string {
		if value, ok := env[name]; ok || name != "HOME" {
			return value
		}
		return a.Home
	})
}

// fromHome returns a path with the home directory in place of a tilde at its beginning.
func (a API) fromHome(p string) string {
	if p == "~" || strings.HasPrefix(p, "~/") {
		return a.Home + p[1:]
	}
	return p
}

func (a API) startCommand(x *web.Exchange) error {
	var q commandRequest
	if err := decode(x, &q); err != nil {
		return err
	}
	req, err := a.execution(x, &q)
	if err != nil {
		return err
	}
	req.IdempotencyKey = x.R.Header.Get("Idempotency-Key")
	if req.User != "" {
		if err := x.Needs(identity.ScopeAdmin); err != nil {
			return err
		}
	}
	if err := x.MayMake(identity.ScopeRun, req.Session, "session"); err != nil {
		return err
	}
	if !q.Background {
		if err := x.MayMake(identity.ScopeRead, req.Session, "session"); err != nil {
			return err
		}
		return a.startAndFollow(x, req, ofCommand, "", nil)
	}
	e, err := a.start(x, req)
	if err != nil {
		return err
	}
	s := begin(x, ofCommand)
	now := time.Now().UnixMilli()
	s.add(&event{Type: "init", Text: e.ID, Timestamp: now})
	s.add(&event{Type: "execution_complete", Timestamp: now})
	return ignore(s.send())
}

// ignore drops the error of a write: the client has disconnected, and the response is over.
func ignore(error) error { return nil }

// start starts an execution.
func (a API) start(x *web.Exchange, req execution.Request) (execution.Execution, error) {
	trace := tracecontext.Of(x.R.Header)
	req.TraceParent, req.TraceState = trace.Parent, trace.State
	e, created, err := a.Host.StartFor(x.R.Context(), x.Who.Holder(), req)
	if err != nil {
		return e, err
	}
	x.W.Header().Set("Execution-Id", e.ID)
	x.Record().Execution = e.ID
	if created {
		x.Made("/v1/executions/" + e.ID)
	}
	return e, nil
}

// startAndFollow starts an execution and answers with its events. id is the text of the init event, "" for the
// execution's.
// opened, if not nil, adds events behind it. All checks precede the start.
func (a API) startAndFollow(x *web.Exchange, req execution.Request, k kind, id string, opened func(*stream)) error {
	if err := a.Reads.Enter(x); err != nil {
		return err
	}
	e, err := a.start(x, req)
	if err != nil {
		return err
	}
	on, err := a.Host.Stream(x.R.Context(), x.Who.Tenant, e.ID)
	if err != nil {
		return err
	}
	if id == "" {
		id = e.ID
	}
	x.EndWithServer()
	x.EndWithConnection()
	s := begin(x, k)
	s.add(&event{Type: "init", Text: id, Timestamp: e.Created.UnixMilli(), Execution: e.ID})
	if opened != nil {
		opened(s)
	}
	s.follow(on)
	return nil
}

// command answers what is read of a command: at status/{id}, {id}/logs and {id}/resume. http.ServeMux does not take
// these patterns beside each other.
func (a API) command(x *web.Exchange) error {
	one, other := x.R.PathValue("one"), x.R.PathValue("other")
	switch {
	case one == "status":
		return a.status(x, other)
	case other == "logs":
		return a.logs(x, one)
	case other == "resume":
		return a.resume(x, one)
	}
	return &refusal{http.StatusNotFound, codeBody, "there is no such path"}
}

// resume answers with the events of a command after one that the client has.
func (a API) resume(x *web.Exchange, id string) error {
	e, err := a.show(x, id)
	if err != nil {
		return err
	}
	text := x.R.URL.Query().Get("after_eid")
	if last := x.R.Header.Get(lastEventID); last != "" {
		text = last
	}
	after := int64(0)
	if text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return badBody("after_eid: the number of an event is taken")
		}
	}
	if err := a.Reads.Enter(x); err != nil {
		return err
	}
	on, err := a.Host.Stream(x.R.Context(), x.Who.Tenant, id)
	if err != nil {
		return gone(err)
	}
	info, err := on.Info(x.R.Context())
	if err != nil {
		return gone(err)
	}
	if info.Earliest > 1 { // the lines of what is gone cannot be counted
		return &refusal{
			http.StatusGone, codeWindow,
			"the first output is no longer kept; GET /command/{id}/logs goes on at the byte of a cursor",
		}
	}
	x.EndWithServer()
	x.EndWithConnection()
	s := begin(x, kindOf(&e))
	s.after = after
	s.follow(on)
	return nil
}

// show returns an execution that the sender may read.
func (a API) show(x *web.Exchange, id string) (e execution.Execution, err error) {
	if err = a.grants().MayRead(x, id); err == nil {
		e, err = a.Host.Show(x.R.Context(), x.Who.Tenant, id)
	}
	return e, unknown(err)
}

func unknown(err error) error { return asCode(err, http.StatusNotFound, codeBody) }

// gone is unknown for a command that ran, and whose output has expired.
func gone(err error) error {
	if errors.Is(err, reprise.ErrExpired) {
		return &refusal{http.StatusGone, codeWindow, err.Error()}
	}
	return unknown(err)
}

type commandStatus struct {
	ID       string     `json:"id"`
	Content  string     `json:"content"`
	Running  bool       `json:"running"`
	ExitCode *int       `json:"exit_code,omitempty"`
	Error    string     `json:"error,omitempty"`
	Started  time.Time  `json:"started_at"`
	Finished *time.Time `json:"finished_at,omitempty"`
}

func (a API) status(x *web.Exchange, id string) error {
	e, err := a.show(x, id)
	if err != nil {
		return err
	}
	s := commandStatus{ID: e.ID, Content: e.Command, Running: e.Status != execution.StatusEnded}
	if e.Command == "" {
		s.Content = strings.Join(e.Argv, " ")
	}
	s.Started = e.Started.Time
	if s.Started.IsZero() {
		s.Started = e.Created.Time
	}
	if !s.Running {
		s.Finished = &e.Ended.Time
		failed := -1
		switch {
		case e.Outcome == execution.Exited:
			s.ExitCode = e.ExitCode
		case e.Outcome == execution.FailedToStart || e.Outcome == execution.Lost:
		default:
			s.ExitCode = &failed
		}
		if e.Outcome != execution.Exited {
			s.Error = string(e.Outcome)
			if e.Error != "" {
				s.Error += ": " + e.Error
			}
		}
	}
	return x.Answer(http.StatusOK, s)
}

// tailHeader is the offset of the byte after those that were sent.
const tailHeader = "EXECD-COMMANDS-TAIL-CURSOR"

// logs answers with the output of both channels from a byte on, as far as it is there. Chunks of output end with whole
// characters, and so does the answer.
func (a API) logs(x *web.Exchange, id string) error {
	ctx := x.R.Context()
	if _, err := a.show(x, id); err != nil {
		return err
	}
	output, err := a.Host.Output(ctx, x.Who.Tenant, id, execution.Both)
	if err != nil {
		return gone(err)
	}
	from, err := strconv.ParseInt(x.R.URL.Query().Get("cursor"), 10, 64)
	if err != nil || from < 0 {
		from = 0 // as execd does
	}
	from = min(from, output.Size())
	if from < output.First() {
		lost := &execution.LostError{Channel: execution.Both, Asked: from, First: output.First()}
		return &refusal{http.StatusGone, codeWindow, lost.Error()}
	}
	to := output.Size()
	h := x.W.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set(tailHeader, strconv.FormatInt(to, 10))
	h.Set("Content-Length", strconv.FormatInt(to-from, 10))
	x.AllowWrite()
	x.W.WriteHeader(http.StatusOK)
	if n, err := output.Copy(ctx, x.Steady(false), from, to-from, false); err != nil || n != to-from {
		panic(http.ErrAbortHandler) // the client must see that this was not all
	}
	return nil
}

// interrupt ends a command, or interrupts what a session or a code context runs.
func (a API) interrupt(x *web.Exchange) error {
	id, ctx := x.R.URL.Query().Get("id"), x.R.Context()
	if id == "" {
		return missing("id")
	}
	err := a.grants().MayUse(x, identity.ScopeControl, id)
	var e execution.Execution
	if err == nil {
		e, err = a.Host.Show(ctx, x.Who.Tenant, id)
	}
	switch {
	case err == nil && e.Status == execution.StatusEnded:
		err = runtimeError("command %s is not running", id)
	case err == nil && e.Driver != "":
		err = interpreter.Interrupt(ctx, a.Host, x.Who.Tenant, id)
	case err == nil:
		err = a.Host.Cancel(ctx, x.Who.Tenant, id)
	}
	if err != nil {
		return asCode(err, http.StatusInternalServerError, codeRuntime)
	}
	return empty(x)
}
