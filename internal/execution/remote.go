package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/problem"
	"reprise/internal/supervisor"
)

// The messages between a server and a supervisor over its socket. Members may be added; a supervisor answers an unknown
// operation with an error.

// order is a message of a server to a supervisor that it has started itself, over the supervisor's stdin. It starts a
// command, or is about a command that an earlier such order has started. Both sides are the same program.
type order struct {
	Dir string `json:"dir,omitempty"`
	// Spare is where the supervisor keeps a directory between two runs. An order without a Plan and a Call asks it to
	// make one.
	Spare          string        `json:"spare,omitempty"`
	Secret         string        `json:"secret,omitempty"`
	SpoolBytes     int64         `json:"spool_bytes,omitempty"`
	DisableCgroups bool          `json:"disable_cgroups,omitempty"`
	Plan           *command.Plan `json:"plan,omitempty"`
	// Attempt must equal that of the brief in Dir.
	Attempt string `json:"attempt,omitempty"`
	// Call is callAck or callForget, as over the socket, in an order without a Plan.
	Call *call `json:"call,omitempty"`
	// Run is the name of the directory of the run that the Call is about: it may come when the supervisor has the next
	// one. Without it, the Call is about the run that the supervisor has.
	Run string `json:"run,omitempty"`
}

// taken is the answer: first that the supervisor has the directory and listens, or why not; then news, as after
// callFollow; and when the run is over and forgotten, that the supervisor is free for another one.
type taken struct {
	Error string `json:"error,omitempty"`
	News  *news  `json:"news,omitempty"`
	Idle  bool   `json:"idle,omitempty"`
	// Spare: the supervisor has a directory for the next run, as order.Spare says.
	Spare bool `json:"spare,omitempty"`
	// Spent: the run is over and forgotten, and the supervisor takes no other.
	Spent bool `json:"spent,omitempty"`
}

// call is a request of a server over the socket.
type call struct {
	Op      callOp           `json:"op"`
	Signal  string           `json:"signal,omitempty"`
	Size    *command.Size    `json:"size,omitempty"`
	Verdict *command.Verdict `json:"verdict,omitempty"`
	Stdin   *askStdin        `json:"stdin,omitempty"`
	// Ack is the last frame that is kept elsewhere.
	Ack uint64 `json:"ack,omitempty"`
}

type callOp string

const (
	// callFollow is answered with news, again and again; callAck and callForget may follow on the same connection.
	callFollow callOp = "follow"
	callAck    callOp = "ack"
	// callForget reports that the end is kept elsewhere: the supervisor removes the directory.
	callForget callOp = "forget"
	// The others are answered once.
	callStatus callOp = "status"
	callSignal callOp = "signal"
	callResize callOp = "resize"
	callStdin  callOp = "stdin"
	// callStdinOf is callStdin by a named writer, which a supervisor that knows no writers must not take for the
	// former.
	callStdinOf callOp = "stdin_of"
	callStop    callOp = "stop"
)

// news is the progress of a supervisor.
type news struct {
	supervisor.Progress
	command.State
	Ended *command.Ending `json:"ended,omitempty"`
}

// replied is the answer to a call.
type replied struct {
	News    *news            `json:"news,omitempty"`
	Stdin   *toldStdin       `json:"stdin,omitempty"`
	Refused *problem.Problem `json:"refused,omitempty"`
}

// remote is a supervisor as its server knows it.
type remote struct {
	dir, secret string
	folder      string // of the code of another user's command, or ""
}

// callPatience limits the time of a supervisor's answer, in addition to the time that it waits for other events.
const callPatience = 5 * time.Second

// call asks once. The error is reprise.ErrUnavailable if the supervisor does not answer.
func (m *remote) call(ctx context.Context, c call) (replied, error) {
	ctx, cancel := context.WithTimeout(ctx, piecePatience+callPatience)
	defer cancel()
	conn, err := supervisor.Dial(ctx, m.dir, m.secret)
	if err != nil {
		return replied{}, fmt.Errorf("%w: the supervisor of the command: %w", reprise.ErrUnavailable, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var answer replied
	err = conn.Send(c)
	if err == nil {
		err = conn.Receive(&answer)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return replied{}, context.Cause(ctx)
	case err != nil:
		return replied{}, fmt.Errorf("%w: the supervisor of the command: %w", reprise.ErrUnavailable, err)
	case answer.Refused != nil:
		return answer, *answer.Refused
	}
	return answer, nil
}

// stdinPiece gives a piece to the command of a supervisor.
func (m *remote) stdinPiece(ctx context.Context, a *askStdin) (*toldStdin, error) {
	op := callStdin
	if a.Writer != "" {
		op = callStdinOf
	}
	answer, err := m.call(ctx, call{Op: op, Stdin: a})
	if err == nil && answer.Stdin == nil {
		err = errors.New("the supervisor answers with something that cannot be")
	}
	return answer.Stdin, err
}

// reached waits until the command of a supervised run can be reached.
func (r *run) reached(ctx context.Context) (*remote, error) {
	select {
	case <-r.ready:
		return r.remote, nil
	case <-r.done:
		return nil, errHasEnded
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// writeStdin is Host.WriteStdin for a run of this replica.
func (r *run) writeStdin(ctx context.Context, w StdinWrite) (Stdin, error) {
	if r.inside != nil {
		return Stdin{}, errStdinNotOpened
	}
	switch {
	case r.job != nil:
		_, state, err := r.job.WriteStdin(ctx, w)
		return state, refused(err)
	case !r.request.StdinOpen:
		return Stdin{}, errStdinNotOpened
	}
	m, err := r.reached(ctx)
	if err != nil {
		return Stdin{}, err
	}
	far := farStdin{ask: func(ctx context.Context, a *askStdin) (*toldStdin, error) {
		t, err := m.stdinPiece(ctx, a)
		return t, r.endedMeanwhile(err)
	}}
	return far.write(ctx, w)
}

// stdinPiece gives input that another replica has received to a command of this replica, as much as the command
// accepts now. r is nil if the command has ended.
func (r *run) stdinPiece(ctx context.Context, a *askStdin) *toldStdin {
	switch {
	case r == nil:
		p := problem.From(errHasEnded)
		return &toldStdin{Refused: &p}
	case r.job != nil:
		return stdinPiece(ctx, r.job, a)
	case !r.request.StdinOpen:
		p := problem.From(errStdinNotOpened)
		return &toldStdin{Refused: &p}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*piecePatience, errPause)
	defer cancel()
	m, err := r.reached(ctx)
	var t *toldStdin
	if err == nil {
		t, err = m.stdinPiece(ctx, a)
	}
	switch {
	case errors.Is(err, errPause):
		return &toldStdin{Stdin: Stdin{Offset: max(a.Offset, 0), Open: true}, Again: true}
	case err != nil:
		p := problem.From(r.endedMeanwhile(err))
		return &toldStdin{Refused: &p}
	}
	return t
}

// stdinPiece gives the command as much of a piece as it takes for now.
func stdinPiece(ctx context.Context, j *command.Job, a *askStdin) *toldStdin {
	w := StdinWrite{Offset: a.Offset, Writer: a.Writer, EOF: a.EOF, Exact: a.Exact}
	if a.Data != nil {
		w.Data = bytes.NewReader(a.Data)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, piecePatience, errPause)
	defer cancel()
	took, state, err := j.WriteStdin(ctx, w)
	t := &toldStdin{Stdin: state, Took: int(took)}
	switch {
	case errors.Is(err, errPause):
		t.Again = true
	case err != nil:
		p := problem.From(refused(err))
		t.Refused = &p
	}
	return t
}

// signal is Host.Signal for a run of this replica.
func (r *run) signal(name string) error {
	if r.inside != nil {
		r.signals.Lock()
		defer r.signals.Unlock()
		if r.codeEnded {
			return errHasEnded
		}
		return r.inside.signal(name)
	}
	if r.job != nil {
		return refused(r.job.Signal(name))
	}
	select {
	case <-r.ready:
	default:
		return errNotStartedYet
	}
	_, err := r.remote.call(r.host.ctx, call{Op: callSignal, Signal: name})
	return r.endedMeanwhile(err)
}

// resize is Host.Resize for a run of this replica.
func (r *run) resize(size *TTY) error {
	if r.inside != nil {
		return errNoTerminal
	}
	if r.job != nil {
		return refused(r.job.Resize((*command.Size)(size)))
	}
	select {
	case <-r.ready:
	default:
		return errNotStartedYet
	}
	if _, err := r.remote.call(r.host.ctx, call{Op: callResize, Size: (*command.Size)(size)}); err != nil {
		return r.endedMeanwhile(err)
	}
	r.mu.Lock()
	r.shown.Resized = (*command.Size)(size) // before the supervisor tells
	r.mu.Unlock()
	return nil
}

// endedMeanwhile returns the error of a call to a supervisor that has ended. A supervisor ends once its end event is in
// the stream, which is before the run is done.
func (r *run) endedMeanwhile(err error) error {
	if !errors.Is(err, reprise.ErrUnavailable) {
		return err
	}
	select {
	case <-r.done:
		return errHasEnded
	default:
	}
	s, unknown := r.host.log.Stream(r.host.ctx, r.key)
	if unknown != nil {
		return err
	}
	if info, unknown := s.Info(r.host.ctx); unknown == nil && info.End != nil {
		return errHasEnded
	}
	return err
}
