package execution

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"reprise"
	"reprise/internal/durable"
	"reprise/internal/execution/supervisor"
	"reprise/internal/quota"
)

// A queued run is written to a file next to the directories of runs, so that the next server starts it. The file is
// "EPOCH.waiting" while the run is queued. It is renamed to "EPOCH.begun" before a process can be started, and removed
// when a supervisor has the command. The name of the file, the directory of the run and its lock together tell whether
// the command was started; see Host.requeue.

const (
	waitingSuffix = ".waiting"
	begunSuffix   = ".begun"
)

// waiting is the content of the file of a waiting run: everything that is needed to start the run. Of secrets it
// contains only the names.
type waiting struct {
	ID string `json:"id"`
	// Arrived is the place in the queue.
	Arrived uint64  `json:"arrived"`
	Request Request `json:"request"`
	// TraceParent, TraceState and Hold are members of the request that its JSON form does not have.
	TraceParent string        `json:"trace_parent,omitempty"`
	TraceState  string        `json:"trace_state,omitempty"`
	Hold        time.Duration `json:"hold,omitempty"`
	HoldToken   string        `json:"hold_token,omitempty"`
	// Principal, Operator and Quotas say for whom it is counted.
	Principal string       `json:"principal,omitempty"`
	Operator  bool         `json:"operator,omitempty"`
	Quotas    quota.Limits `json:"quotas,omitempty"`
	// Language and Idle belong to an interpreter.
	Language string        `json:"language,omitempty"`
	Idle     time.Duration `json:"idle,omitempty"`
	// Machine is the machine of the server that wrote the file; see thisMachine.
	Machine string `json:"machine"`
}

// waitingFile is the name of the file of a run without its suffix.
func (h *Host) waitingFile(epoch reprise.Epoch) string {
	return filepath.Join(h.supervisors.Dir(), string(epoch))
}

// keepWaiting writes the file of a waiting run, if commands outlive the server. The file exists until the turn of the
// run has come or the run is over.
func (r *Run) keepWaiting() error {
	if r.host.supervisors == nil || r.host.queue.status(r) != StatusQueued {
		return nil
	}
	w := waiting{
		ID: r.id, Arrived: r.arrived, Request: r.request,
		TraceParent: r.request.TraceParent, TraceState: r.request.TraceState, Hold: time.Duration(r.request.Hold),
		Principal: r.holder.Principal, Operator: r.holder.Operator, Quotas: r.holder.Limits, Machine: thisMachine(),
	}
	if r.hold != nil {
		w.HoldToken = r.hold.token
	}
	if r.driver != nil {
		w.Language, w.Idle = r.config.Labels[labelDriver], r.driver.Progress().Idle
	}
	file := r.host.waitingFile(r.Epoch())
	if err := durable.Write(file+waitingSuffix, mustMarshal(w)); err != nil {
		return err
	}
	r.waitsIn = file
	return nil
}

// isKept reports whether a later server can start the run, which has not begun here.
func (r *Run) isKept() bool { return r.waitsIn != "" }

// beginKept records that the turn of the run has come. Nothing may be started before that, because a later server would
// start it again.
func (r *Run) beginKept() error {
	if r.waitsIn == "" {
		return nil
	}
	return durable.Rename(r.waitsIn+waitingSuffix, r.waitsIn+begunSuffix)
}

// forgetKept removes the file of a run that a supervisor has, or that has its end.
func (r *Run) forgetKept() {
	if r.waitsIn == "" {
		return
	}
	_ = os.Remove(r.waitsIn + begunSuffix)
	_ = os.Remove(r.waitsIn + waitingSuffix)
	r.waitsIn = ""
}

// waitingFiles returns the suffixes of the files in the directory of all runs, by epoch. It removes files that were not
// completely written.
func (h *Host) waitingFiles(entries []os.DirEntry) map[reprise.Epoch]string {
	found := map[reprise.Epoch]string{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), waitingSuffix+".new") {
			_ = os.Remove(filepath.Join(h.supervisors.Dir(), e.Name()))
		}
		for _, suffix := range []string{waitingSuffix, begunSuffix} {
			if epoch, ok := strings.CutSuffix(e.Name(), suffix); ok && !e.IsDir() {
				found[reprise.Epoch(epoch)] = suffix
			}
		}
	}
	return found
}

// loadWaiting reads the file of a run that waits.
func loadWaiting(file string) (w waiting, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &w)
	}
	w.Request.TraceParent, w.Request.TraceState, w.Request.Hold = w.TraceParent, w.TraceState, Duration(w.Hold)
	return w, err
}

// neverBegan reports whether it is certain that no supervisor has started the command of a run, or will start it. If
// so, neverBegan removes the directory of the run. suffix is the suffix of the run's file, from which w was read.
func (h *Host) neverBegan(epoch reprise.Epoch, w *waiting, suffix string) bool {
	if suffix == waitingSuffix {
		return true
	}
	if w.Machine != thisMachine() {
		return false // a crash of the machine may have undone what a supervisor wrote
	}
	dir := h.waitingFile(epoch)
	lock, err := supervisor.LockDead(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false
	default:
		defer lock.Close()
		if supervisor.HasBegun(dir) {
			return false
		}
	}
	return os.RemoveAll(dir) == nil
}
