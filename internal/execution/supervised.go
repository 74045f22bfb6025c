package execution

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"reprise"
	"reprise/internal/artifact"
	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
	"reprise/internal/isolation"
)

// This file is the Host's side of a run in a supervisor: it passes the command on, and copies the spool into the
// stream.
//
// Frame n of the spool is event n of the stream. The tail of the stream therefore shows which frames it contains, even
// after a crash of the server or a lost answer of the store, and no other record is needed. Frames and events differ
// only if a store loses acknowledged events, a frame cannot be read, or an event tells another replica who owns the
// run. The difference is then kept in the file "shift", which is written before the first event that it applies to.

// brief is the part of the request that the directory of a run keeps for a later server.
type brief struct {
	// Run is the name of the directory. After a crash of the machine the file may belong to an earlier run.
	Run              string        `json:"run,omitempty"`
	StdinOpen        bool          `json:"stdin_open,omitempty"`
	KillOnDisconnect bool          `json:"kill_on_disconnect,omitempty"`
	Grace            time.Duration `json:"grace"`
	// Machine is where and when it was started; see thisMachine.
	Machine string `json:"machine"`
	// Principal is for whom it is counted, and Operator whether that is the operator.
	Principal string `json:"principal,omitempty"`
	Operator  bool   `json:"operator,omitempty"`
	// Artifacts are collected at the end, with the Isolation of the command.
	Artifacts *artifact.Collection `json:"artifacts,omitempty"`
	Isolation *isolation.Plan      `json:"isolation,omitempty"`
	// Attempt is the attempt of the order that starts the command. A supervisor that is late with an older order finds
	// a different Attempt here.
	Attempt string `json:"attempt,omitempty"`
	// Folder is the folder of the code, if it is not in the directory of the run.
	Folder string `json:"folder,omitempty"`
	// Shifts are here if there was no room on the disk for a file of their own.
	Shifts *shifts `json:"shifts,omitempty"`
}

const shiftFile = "shift"

// thisMachine names the boot of this machine and our process namespace, without which no process of a run is left.
var thisMachine = sync.OnceValue(func() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	pids, _ := os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(boot)) + " " + pids
})

// loadBrief reads the brief in the directory of a run. If it is missing, there is no stdin.
func loadBrief(dir string) (b brief) {
	if text, err := os.ReadFile(filepath.Join(dir, supervisor.BriefFile)); err == nil {
		_ = json.Unmarshal(text, &b)
	}
	if b.Run != "" && b.Run != filepath.Base(dir) {
		return brief{}
	}
	return b
}

// save writes the brief over an earlier run's in the same directory. It is not truncated first: some file systems
// begin to write a file to the disk when it is closed after that.
func (b *brief) save(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, supervisor.BriefFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	text := mustMarshal(b)
	_, err = f.Write(text)
	info, statErr := f.Stat()
	if err == nil && statErr == nil && info.Size() > int64(len(text)) {
		err = f.Truncate(int64(len(text)))
	}
	return errors.Join(err, statErr, f.Close())
}

// supervised is what a Host has of a run whose command is in a supervisor. It belongs to the goroutine that follows the
// supervisor.
type supervised struct {
	remote *supervisor.Remote // nil if there is none, or none yet
	ready  chan struct{}      // closed when remote has the command
	worker *supervisor.Worker // its process, if it is a child of ours
	link   *supervisor.Link   // to the worker, until it is used
	folder string             // of the code of another user's command, or ""

	// The position of the run in its spool.
	reader *supervisor.Reader
	shifts shifts

	// last are events that are appended together with the end.
	last []reprise.Event
	// judgedOutside, if set, reports whether the supervisor has got the order or has decided to end the command.
	judgedOutside func() bool
}

// runSupervised runs the command under a supervisor.
func (r *Run) runSupervised() {
	r.remote = r.host.supervisors.Remote(string(r.Epoch()))
	r.reader = supervisor.NewReader(r.remote.Dir, 1)
	err := r.beginKept()
	if err == nil {
		err = r.handOver()
	}
	if err != nil {
		_ = os.RemoveAll(r.remote.Dir)
		removeFolder(r.folder)
		if r.end(command.Ending{Outcome: FailedToStart, Error: err.Error()}) {
			r.forgetKept()
		}
		return
	}
	r.forgetKept()
	r.followRemote()
}

// handOver gives the command to a supervisor.
func (r *Run) handOver() error {
	s := r.host.supervisors
	w, err := s.MakeDir(r.remote.Dir)
	if err != nil {
		return err
	}
	o, err := r.makeOrder()
	if err != nil {
		s.PutBack(w)
		return err
	}
	w, l, err := s.Give(o, w)
	if err != nil {
		return err
	}
	r.worker, r.link = w, l
	r.plan = nil // nothing of it is needed here any more
	return nil
}

// makeOrder writes the files in the directory of the run, and returns the order to start its command.
func (r *Run) makeOrder() (*supervisor.Order, error) {
	dir := r.remote.Dir
	folder, err := r.makePlan(dir)
	if folder != "" && filepath.Dir(folder) != dir {
		r.folder = folder
	}
	if err != nil {
		return nil, err
	}
	if r.tail > 0 { // it was claimed while it waited
		r.shifts.move(1, r.tail)
		if err := r.shifts.save(dir); err != nil {
			return nil, err
		}
	}
	b := brief{
		Run:              filepath.Base(dir),
		StdinOpen:        r.request.StdinOpen,
		KillOnDisconnect: r.request.KillOnDisconnect,
		Grace:            r.Grace(),
		Machine:          thisMachine(),
	}
	b.Principal, b.Operator = r.holder.Principal, r.holder.Operator
	b.Artifacts, b.Folder, b.Attempt = r.artifacts, r.folder, rand.Text()
	if b.Artifacts != nil {
		b.Isolation = r.isolation
	}
	if err := b.save(dir); err != nil {
		return nil, err
	}
	if r.driver != nil {
		r.driver.Begin(r, dir)
	}
	return &supervisor.Order{Dir: dir, SpoolBytes: r.host.opts.SpoolBytes, Plan: r.plan, Attempt: b.Attempt}, nil
}

// realign records that events or frames were lost: the next frame becomes the event after the tail.
func (r *Run) realign(next uint64) error {
	if r.shifts.next(r.tail) == next {
		return nil
	}
	r.cut = true
	moved := shifts{Cut: true, Steps: slices.Clone(r.shifts.Steps), Saves: r.shifts.Saves}
	moved.move(next, r.tail)
	if err := moved.save(r.remote.Dir); err != nil {
		return err
	}
	r.shifts = moved
	return nil
}

// followRemote brings the output of the command into the stream until it ends, or until the Host goes.
func (r *Run) followRemote() {
	close(r.ready)
	defer func() { r.reader.Close() }()
	stopForwarding := r.forwardStop()
	defer stopForwarding()
	pause := retries
	for {
		l, err := r.link, error(nil)
		if r.link = nil; l == nil { // that over which the supervisor was started serves until it fails
			l, err = r.remote.Follow(r.host.ctx)
		}
		if err == nil {
			e, ok, ferr := r.followLink(l)
			if ok {
				r.concludeRemote(l, e)
				return
			}
			l.Close()
			err = ferr
		}
		if r.host.ctx.Err() != nil {
			r.leave()
			return
		}
		if r.buried(err) {
			return
		}
		if pause.Wait(r.host.ctx) != nil {
			r.leave()
			return
		}
	}
}

// leave lets the command continue without this Host.
func (r *Run) leave() {
	r.host.left.Add(1)
	if r.worker != nil {
		r.worker.Leave()
	}
}

// forwardStop orders the supervisor to end the command when it is to end, until it has answered that or stop is called.
func (r *Run) forwardStop() (stop func()) {
	ctx, cancel := context.WithCancel(r.host.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-r.Stopping():
		}
		v := r.Verdict()
		_ = retries.Repeat(ctx, func() bool {
			// A supervisor that stands still is asked again. The first verdict counts: a repeated one changes nothing.
			_, err := r.remote.Control(ctx, &command.Control{Op: command.OpStop, Verdict: &v})
			return err == nil || errors.Is(err, reprise.ErrEnded)
		})
	}()
	return func() {
		cancel()
		<-done
	}
}

// followLink processes the messages of a supervisor until the command has ended and all of its output is in the stream.
func (r *Run) followLink(l *supervisor.Link) (e command.Ending, ended bool, err error) {
	defer context.AfterFunc(r.host.ctx, l.Close)()
	r.judgedOutside = l.IsJudged
	defer func() { r.judgedOutside = nil }()
	var stalled time.Duration
	known := r.reader.Next() - 1 // in the stream by an earlier server, which may have died before it said so
	for {
		n, err := l.Take()
		if err != nil {
			return command.Ending{}, false, err
		}
		r.learn(n, &stalled)
		if known > 0 {
			_ = l.Kept(known, 0)
			known = 0
		}
		for r.reader.Next() <= n.Tail {
			f, err := r.readFrames(n.Tail)
			if err == nil && n.Ended != nil && r.endsWith(&f) && r.reader.Next() > n.Tail {
				r.last = f.events
				break
			}
			if err == nil {
				err = r.appendFrames(f.events)
			}
			if err != nil {
				return command.Ending{}, false, err
			}
			if err := l.Kept(r.reader.Next()-1, f.size); err != nil && n.Ended == nil {
				return command.Ending{}, false, err
			}
		}
		if n.Ended != nil {
			r.ProcessEnded()
			return *n.Ended, true, nil
		}
	}
}

// endsWith reports whether the last frames of a run are appended together with its end. Most commands are short, and
// then this is one commit in place of two. Frames that may have to wait for something else are appended before.
func (r *Run) endsWith(f *framesRead) bool {
	return f.size <= lastBytes && !r.dropped && r.hold == nil && r.driver == nil && r.artifacts == nil
}

// errSpoolFull is why a command waits that its supervisor holds up.
var errSpoolFull = errors.New("the disk of the commands' output is full")

// learn applies the news about the process.
func (r *Run) learn(n *supervisor.News, stalled *time.Duration) {
	r.mu.Lock()
	r.shown = n.State
	r.spoolFull = n.FullSince
	r.mu.Unlock()
	if !n.FullSince.IsZero() {
		r.host.tellFull(r, errSpoolFull)
	}
	if d := n.Stalled - *stalled; d > 0 {
		r.stalled(d)
	}
	*stalled = n.Stalled
}

// lastBytes is the most output that is appended together with an end.
const lastBytes = 64 << 10

// framesRead are frames of a spool as events, and the size of their data.
type framesRead struct {
	events []reprise.Event
	size   int
}

// readFrames returns the next frames up to last. Their data is good until the next call. After an error the same frames
// can be read again.
func (r *Run) readFrames(last uint64) (f framesRead, err error) {
	at := r.reader.Next()
	defer func() {
		if err != nil { // the reader may have passed them, or have a file open that cannot be read
			r.reader.Close()
			r.reader = supervisor.NewReader(r.remote.Dir, at)
		}
	}()
	b, err := r.reader.Read(last, command.WriteBytes)
	if err != nil {
		return f, err
	}
	if b.Skipped > 0 {
		r.Logger().Error("output of an execution cannot be read any more", "frames", b.Skipped)
		if err := r.realign(r.reader.Next() - uint64(len(b.Frames))); err != nil {
			return f, err
		}
	}
	if len(b.Frames) == 0 {
		return f, nil
	}
	next := b.Frames[0].Index
	r.lostEvents = func() error { return r.realign(next) }
	f.events = make([]reprise.Event, 0, len(b.Frames))
	for i := range b.Frames {
		f.events = append(f.events, eventOf(&b.Frames[i].Chunk))
		f.size += len(b.Frames[i].Data)
	}
	return f, nil
}

// appendFrames appends what readFrames has returned. The error means that the stream accepts nothing more for now. If
// it never will again, the command is ended.
func (r *Run) appendFrames(events []reprise.Event) error {
	if len(events) == 0 {
		return nil
	}
	err := r.append(events)
	if err == nil || r.host.ctx.Err() != nil {
		return err
	}
	r.cannotAppend(err)
	r.cut = true
	return nil // the rest of the output is read and dropped, so that the command can end
}

// concludeRemote gives the stream its end, and lets the supervisor forget the run when that is kept.
func (r *Run) concludeRemote(l *supervisor.Link, e command.Ending) {
	if !r.endWith(r.last, ending{Ending: e}) {
		r.leave()
		l.Close()
		return
	}
	removeFolder(r.folder)
	l.Forget()
}
