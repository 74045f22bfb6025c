package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
	"reprise/internal/interpreter"
)

// An interpreter is an execution: its command is a driver (package interpreter) that reads requests from stdin. Each
// piece of code that it runs is an execution too, whose events are copied from the stream of the interpreter. An
// interpreter therefore outlives the server like every command. The copy depends only on the events of the interpreter.
// Its position is written to the directory of the spool before the supervisor may drop the copied frames: the next
// server continues from there, and skips the events that were appended before.

// labelInterpreter is the label of the streams of interpreters, which holds the language.
const labelInterpreter = "interpreter"

// driven is the additional state of the run of an interpreter.
type driven struct {
	language string

	mu    sync.Mutex
	dir   string // of the run; "" without a supervisor
	state drivenState
	// current is the run of the code; nil where its stream is gone, and between two runs.
	current *run
	timer   *time.Timer // of the idle timeout
	over    bool        // the interpreter has ended

	// shown is what progress returns. It needs no mu, which is held while the output of code waits for its follower.
	shown atomic.Pointer[drivenProgress]
}

// newDriven returns the state of an interpreter that is used from now on.
func newDriven(language string, idle time.Duration) *driven {
	d := &driven{language: language}
	d.state.Used, d.state.Idle = time.Now(), idle
	d.report()
	return d
}

// drivenState is the part of driven that a later server needs.
type drivenState struct {
	// Seq is the last event of the interpreter's stream that was taken.
	Seq   uint64             `json:"seq"`
	Slice interpreter.Slicer `json:"slice"`
	Runs  int                `json:"runs"`
	// Used is when the last run ended, or the interpreter was started.
	Used time.Time `json:"used"`
	// Idle ends an interpreter that was not used for so long; 0 for never.
	Idle    time.Duration `json:"idle"`
	Current *codeState    `json:"current,omitempty"`
}

// codeState is the part of the run of code that a later server needs.
type codeState struct {
	Name  string        `json:"name"` // of its stream
	Epoch reprise.Epoch `json:"epoch"`
	// Tail is the tail of its stream when Seq was taken.
	Tail uint64 `json:"tail"`
	// Input is the request that is sent to the driver.
	Input   []byte        `json:"input"`
	Started time.Time     `json:"started"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Grace   time.Duration `json:"grace"`
}

// drivenFile holds the drivenState in the directory of a run.
const drivenFile = "interpreter.json"

// save writes the state for a later server. The caller holds mu.
func (d *driven) save() error {
	if d.dir == "" {
		return nil
	}
	err := supervisor.WriteFile(filepath.Join(d.dir, drivenFile), mustMarshal(&d.state))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a directory that was removed is never read again
	}
	return err
}

// take cuts the runs out of events of the interpreter, the last of which is last. It is called once they are kept. The
// error is why the Host goes.
func (r *run) take(events []reprise.Event, last uint64) error {
	d := r.driven
	d.mu.Lock()
	defer d.mu.Unlock()
	if last <= d.state.Seq {
		return nil
	}
	var batch []reprise.Event
	for i := range events {
		e := &events[i]
		if e.Type != Stdout && e.Type != Stderr {
			continue
		}
		for _, p := range d.state.Slice.Feed(e.Type == Stderr, e.Data) {
			piece := reprise.Event{Time: e.Time, Type: e.Type, Format: reprise.FormatBytes, Data: p.Data}
			if p.Type != "" {
				piece.Type, piece.Format = p.Type, reprise.FormatJSON
			}
			batch = append(batch, piece)
		}
		if d.state.Slice.Over() {
			if err := r.deliver(batch); err != nil {
				return err
			}
			batch = nil
			if err := r.endCode(e.Time); err != nil {
				return err
			}
		}
	}
	if err := r.deliver(batch); err != nil {
		return err
	}
	d.state.Seq = last
	if err := d.save(); err != nil {
		r.host.opts.Logger.Error("the state of an interpreter cannot be kept", "execution", r.id, "error", err)
	}
	return nil
}

// deliver appends the events that belong to the run of the code, except those that an earlier server has appended. The
// caller holds mu.
func (r *run) deliver(batch []reprise.Event) error {
	d := r.driven
	code, at := d.current, d.state.Current
	if at == nil {
		return nil
	}
	before := at.Tail
	at.Tail += uint64(len(batch))
	if code == nil {
		return nil
	}
	if code.tail > before { // by an earlier server
		batch = batch[min(uint64(len(batch)), code.tail-before):]
	}
	if len(batch) == 0 {
		return nil
	}
	err := code.append(batch)
	switch {
	case err == nil:
	case r.host.ctx.Err() != nil:
		return err
	case isFull(err):
		code.dropRest()
	default:
		if !isOver(err) {
			r.host.opts.Logger.Error("the output of code cannot be kept", "execution", code.id, "error", err)
		}
		code.cut = true
		if isOver(err) || errors.Is(err, reprise.ErrFenced) {
			d.current = nil
			code.codeOver()
		}
	}
	return nil
}

// endCode gives the run of the code its end. The caller holds mu.
func (r *run) endCode(at time.Time) error {
	d := r.driven
	if d.state.Current == nil {
		return nil
	}
	exit := d.state.Slice.Code
	return r.concludeCode(command.Ending{Outcome: Exited, ExitCode: &exit, Isolation: r.state().Isolation}, at)
}

// concludeCode is endCode for an ending. The caller holds mu.
func (r *run) concludeCode(e command.Ending, at time.Time) error {
	d := r.driven
	code, was := d.current, d.state.Current
	e.Started, e.DurationMS = ms(was.Started), max(0, at.Sub(was.Started).Milliseconds())
	// A client that sees the end may look at the interpreter, and give it the next code, which then waits for mu.
	d.state.Used = at
	d.shown.Store(&drivenProgress{Runs: d.state.Runs, Used: at, Idle: d.state.Idle})
	if code != nil {
		code.ProcessEnded()
		code.signals.Lock()
		code.codeEnded = true
		code.signals.Unlock()
		if !code.end(e) && r.host.ctx.Err() != nil {
			return context.Cause(r.host.ctx)
		}
		code.codeOver()
	}
	d.current, d.state.Current = nil, nil
	d.state.Slice.Marks = interpreter.Marks{}
	d.rest(r)
	return nil
}

// rest starts the time that the interpreter may be idle. The caller holds mu.
func (d *driven) rest(r *run) {
	if d.state.Idle == 0 || d.over {
		return
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(d.state.Idle, func() {
		d.mu.Lock()
		idle := d.timer == timer && d.state.Current == nil // after code there is another timer
		d.mu.Unlock()
		if idle {
			r.Stop(command.Verdict{Outcome: Cancelled, Reason: fmt.Sprintf("it was idle for %v", d.state.Idle)})
		}
	})
	d.timer = timer
}

// interpreterEnded ends the run of the code as its interpreter has ended. It is called before the end of that is kept.
func (r *run) interpreterEnded(e command.Ending) error {
	d := r.driven
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.state.Current == nil {
		return nil
	}
	var rest []reprise.Event
	for _, stderr := range []bool{false, true} {
		if held := d.state.Slice.Flush(stderr); len(held) > 0 {
			kind := Stdout
			if stderr {
				kind = Stderr
			}
			rest = append(rest, reprise.Event{Type: kind, Format: reprise.FormatBytes, Data: held})
		}
	}
	if err := r.deliver(rest); err != nil {
		return err
	}
	why := "the interpreter ended"
	if e.Error != "" {
		why += ": " + e.Error
	}
	return r.concludeCode(command.Ending{
		Outcome: e.Outcome, ExitCode: e.ExitCode, Signal: e.Signal, Error: why, Limit: e.Limit,
		OutputTruncated: e.OutputTruncated, ProcessesLeft: e.ProcessesLeft, Isolation: e.Isolation,
	}, time.Now())
}

// resumeDriven takes up an interpreter of an earlier server, and the run of code in it, if r is one.
func (h *Host) resumeDriven(ctx context.Context, r *run, info *reprise.StreamInfo) error {
	language := info.Config.Labels[labelInterpreter]
	if language == "" {
		return nil
	}
	d := newDriven(language, 0)
	d.dir = r.remote.Dir
	if text, err := os.ReadFile(filepath.Join(d.dir, drivenFile)); err == nil {
		_ = json.Unmarshal(text, &d.state)
	} else {
		d.state.Used = info.Created
	}
	d.report()
	r.driven = d
	if d.state.Current != nil {
		if err := h.resumeCode(ctx, r); err != nil {
			return err
		}
	}
	if err := r.takeKept(ctx); err != nil {
		if code := d.current; code != nil { // recover gives it its end
			code.codeOver()
			<-code.done
		}
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state.Current == nil {
		d.rest(r)
	}
	return nil
}

// takeKept takes the events that are in the interpreter's stream and were not taken.
func (r *run) takeKept(ctx context.Context) error {
	d := r.driven
	if d.state.Seq >= r.tail {
		return nil
	}
	lost := func() {
		if d.current != nil {
			d.current.cut = true
		}
	}
	at := reprise.After(r.stream.Cursor(d.state.Seq))
	_, err := eachBatch(ctx, r.stream, at, lost, func(batch reprise.Events) (bool, error) {
		if batch.Len() == 0 {
			return true, nil
		}
		events := make([]reprise.Event, 0, batch.Len())
		for e := range batch.All() {
			events = append(events, e)
		}
		return batch.Last() >= r.tail, r.take(events, batch.Last())
	})
	return err
}
