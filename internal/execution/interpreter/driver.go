package interpreter

import (
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

// codeState is the part of the run of code that a later server needs.
type codeState struct {
	Name  string        `json:"name"` // of its stream
	Epoch reprise.Epoch `json:"epoch"`
	// Tail is the tail of its stream when state.Seq was taken.
	Tail uint64 `json:"tail"`
	// Input is the request that is sent to the driver.
	Input   []byte        `json:"input"`
	Started time.Time     `json:"started"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Grace   time.Duration `json:"grace"`
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

// load reads the state that an earlier server has written for a run.
func (d *driver) load(r *execution.Run, created time.Time) {
	d.run, d.dir = r, r.Dir()
	if text, err := os.ReadFile(filepath.Join(d.dir, stateFile)); err == nil {
		_ = json.Unmarshal(text, &d.state)
	} else {
		d.state.Used = created
	}
	d.report()
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
