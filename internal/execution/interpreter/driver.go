package interpreter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
)

// driver is the execution.Driver of one interpreter.
type driver struct {
	program *program
	run     *execution.Run // of the interpreter; nil before Begin or Resume

	mu    sync.Mutex
	dir   string // of the run; "" without a supervisor
	state state
	// current is the run of the code; nil where its stream is gone, and between two runs.
	current *execution.Run
	timer   *time.Timer // of the idle timeout
	over    bool        // the interpreter has ended

	// shown needs no mu, which is held while the output of code waits for its follower.
	shown atomic.Pointer[execution.Driven]
}

// state is the part of a driver that a later server needs.
type state struct {
	// Seq is the last event of the interpreter's stream that was taken.
	Seq   uint64 `json:"seq"`
	Slice Slicer `json:"slice"`
	Runs  int    `json:"runs"`
	// Used is when the last run ended, or the interpreter was started.
	Used time.Time `json:"used"`
	// Idle ends an interpreter that was not used for so long; 0 for never.
	Idle    time.Duration `json:"idle"`
	Current *codeState    `json:"current,omitempty"`
}

// stateFile holds the state in the directory of a run.
const stateFile = "interpreter.json"

// save writes the state for a later server. The caller holds mu.
func (d *driver) save() {
	if d.dir == "" {
		return
	}
	text, err := json.Marshal(&d.state)
	if err == nil {
		err = supervisor.WriteFile(filepath.Join(d.dir, stateFile), text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a directory that was removed is never read again
		d.run.Logger().Error("the state of an interpreter cannot be kept", "error", err)
	}
}

// Progress returns what the interpreter does.
func (d *driver) Progress() *execution.Driven { return d.shown.Load() }

// report makes the state the progress. The caller holds mu.
func (d *driver) report() {
	p := &execution.Driven{Runs: d.state.Runs, Used: d.state.Used, Idle: d.state.Idle}
	if d.state.Current != nil {
		_, p.Running, _ = strings.Cut(d.state.Current.Name, ":")
	}
	d.shown.Store(p)
}

// Begin starts the time that the interpreter may be without code.
func (d *driver) Begin(r *execution.Run, dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.run, d.dir, d.state.Used = r, dir, time.Now()
	d.report()
	d.rest()
	d.save()
}

// rest starts the time that the interpreter may be idle. The caller holds mu.
func (d *driver) rest() {
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
			d.run.Stop(command.Verdict{
				Outcome: command.Cancelled, Reason: fmt.Sprintf("it was idle for %v", d.state.Idle),
			})
		}
	})
	d.timer = timer
}

// Take cuts the runs out of events of the interpreter.
func (d *driver) Take(events []reprise.Event, last uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last <= d.state.Seq {
		return nil
	}
	var batch []reprise.Event
	for i := range events {
		e := &events[i]
		if e.Type != execution.Stdout && e.Type != execution.Stderr {
			continue
		}
		for _, p := range d.state.Slice.Feed(e.Type == execution.Stderr, e.Data) {
			piece := reprise.Event{Time: e.Time, Type: e.Type, Format: reprise.FormatBytes, Data: p.Data}
			if p.Type != "" {
				piece.Type, piece.Format = p.Type, reprise.FormatJSON
			}
			batch = append(batch, piece)
		}
		if d.state.Slice.Over() {
			if err := d.deliver(batch); err != nil {
				return err
			}
			batch = nil
			exit := d.state.Slice.Code
			if err := d.conclude(command.Ending{Outcome: command.Exited, ExitCode: &exit}, e.Time); err != nil {
				return err
			}
		}
	}
	if err := d.deliver(batch); err != nil {
		return err
	}
	d.state.Seq = last
	d.save()
	return nil
}

// End ends the run of the code as its interpreter has ended.
func (d *driver) End(e command.Ending) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.timer != nil {
		d.timer.Stop()
	}
	var rest []reprise.Event
	for _, channel := range []string{execution.Stdout, execution.Stderr} {
		if held := d.state.Slice.Flush(channel == execution.Stderr); len(held) > 0 {
			rest = append(rest, reprise.Event{Type: channel, Format: reprise.FormatBytes, Data: held})
		}
	}
	if err := d.deliver(rest); err != nil {
		return err
	}
	why := "the interpreter ended"
	if e.Error != "" {
		why += ": " + e.Error
	}
	return d.conclude(command.Ending{
		Outcome: e.Outcome, ExitCode: e.ExitCode, Signal: e.Signal, Error: why, Limit: e.Limit,
		OutputTruncated: e.OutputTruncated, ProcessesLeft: e.ProcessesLeft, Isolation: e.Isolation,
	}, time.Now())
}

// Resume takes up an interpreter of an earlier server, and the code that it runs.
func (d *driver) Resume(ctx context.Context, r *execution.Run, created time.Time) error {
	d.run, d.dir = r, r.Dir()
	if text, err := os.ReadFile(filepath.Join(d.dir, stateFile)); err == nil {
		_ = json.Unmarshal(text, &d.state)
	} else {
		d.state.Used = created
	}
	d.report()
	if d.state.Current != nil {
		if err := d.resumeCode(ctx); err != nil {
			return err
		}
	}
	lost := func() {
		if d.current != nil {
			d.current.Cut()
		}
	}
	if err := r.Replay(ctx, d.state.Seq, lost, d.Take); err != nil {
		if code := d.current; code != nil { // recover gives it its end
			code.SetOver()
			<-code.Done()
		}
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state.Current == nil {
		d.rest()
	}
	return nil
}
