package execution

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"reprise"
	"reprise/internal/spawn"
	"reprise/internal/supervisor"
)

// supervisors are those that a Host has started, and the directories of its runs.
type supervisors struct {
	dir     string // of all runs
	secret  string
	maxIdle int
	spawner *spawn.Spawner
	// disableCgroups is Options.DisableCgroups.
	disableCgroups bool

	mu      sync.Mutex
	workers map[*worker]bool
	idle    []*worker
	trims   *time.Timer // ends those beyond maxIdle; nil while there are none
	closed  bool
	warming bool
	all     sync.WaitGroup
}

// openSupervisors makes the directory of the runs.
func openSupervisors(opts *Options, s *spawn.Spawner) (*supervisors, error) {
	dir, err := filepath.Abs(opts.RunsDir)
	if err != nil {
		return nil, err
	}
	secret, err := supervisor.LoadSecret(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of the runs: %w", err)
	}
	p := &supervisors{
		dir: dir, secret: secret, maxIdle: opts.MaxIdle, spawner: s, disableCgroups: opts.DisableCgroups,
		workers: map[*worker]bool{},
	}
	if err := p.removeSpares(); err != nil {
		return nil, fmt.Errorf("directory of the runs: %w", err)
	}
	return p, nil
}

// dirOf is the directory of a run, which is named by its epoch: that is never used twice.
func (p *supervisors) dirOf(epoch reprise.Epoch) string { return filepath.Join(p.dir, string(epoch)) }

// worker is a supervisor process of this server.
type worker struct {
	owner   *supervisors
	process *os.Process
	orders  *supervisor.Conn
	answers chan taken // closed when it has ended
	// news are those of the run that it has, or had last.
	news atomic.Pointer[mailbox]
	// left is set when the Host goes and the command stays.
	left atomic.Bool
	// spareDir is where it keeps a directory between two runs, and spare whether it has one. spare and ended are
	// guarded by owner.mu.
	spareDir string
	spare    bool
	ended    bool
}

// start starts a supervisor. It is this very program, even if its file was replaced or removed meanwhile.
func (p *supervisors) start() (*worker, error) {
	raw, far, err := connectedPair()
	if err != nil {
		return nil, err
	}
	defer far.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	defer null.Close()
	attr := &os.ProcAttr{
		Dir: "/", Env: supervisorEnv(), Files: []*os.File{far, null, null},
		Sys: &syscall.SysProcAttr{Setsid: true},
	}
	process, err := p.spawner.StartBy(startDrowsy, "/proc/self/exe", []string{supervisorName}, attr)
	if err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	w := &worker{
		owner: p, process: process, orders: supervisor.NewConn(raw), answers: make(chan taken, 1),
		spareDir: filepath.Join(p.dir, sparePrefix+rand.Text()),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = raw.Close()
		_, _ = process.Wait()
		return nil, reprise.ErrClosed
	}
	p.workers[w] = true
	p.all.Go(w.attend)
	return w, nil
}

// supervisorEnv returns the environment of supervisors. It contains none of our variables except those of instrumented
// builds, because commands must not find them there.
func supervisorEnv() []string {
	env := []string{"GOMAXPROCS=1"} // see narrowBytes
	for _, name := range []string{"GOCOVERDIR", "GORACE"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// attend receives the answers of the worker until it ends.
func (w *worker) attend() {
	for {
		var t taken
		if err := w.orders.Receive(&t); err != nil {
			break
		}
		switch {
		case t.News != nil:
			w.news.Load().put(t.News)
		case t.Idle:
			w.news.Load().fail(errNoMoreNews)
			w.owner.put(w, t.Spare)
		case t.Spent: // it ends by itself
			w.news.Load().fail(errNoMoreNews)
		default:
			w.answers <- t
		}
	}
	close(w.answers)
	if news := w.news.Load(); news != nil {
		news.fail(errNoMoreNews)
	}
	w.owner.drop(w)
	_ = w.orders.Close()
	if w.left.Load() {
		_ = w.process.Release()
		return
	}
	_, _ = w.process.Wait()
	_ = os.RemoveAll(w.spareDir) // it was killed: otherwise it has done this itself
}

// While many commands begin and end, supervisors beyond maxIdle are kept for trimAfter, up to burstIdle times maxIdle:
// otherwise they would be ended and others started all the time.
const (
	trimAfter = time.Second
	burstIdle = 4
)

// put returns an idle worker to the pool. spare tells whether it has a spare directory.
func (p *supervisors) put(w *worker, spare bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.ended {
		return
	}
	w.spare = spare
	if p.closed || len(p.idle) >= burstIdle*p.maxIdle {
		_ = w.orders.Close() // then it ends
		return
	}
	p.idle = append(p.idle, w)
	if len(p.idle) > p.maxIdle && p.trims == nil {
		p.trims = time.AfterFunc(trimAfter, p.trim)
	}
}

// trim ends the workers beyond maxIdle that have been idle for the longest time.
func (p *supervisors) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trims = nil
	if n := len(p.idle) - p.maxIdle; n > 0 && !p.closed {
		for _, w := range p.idle[:n] {
			_ = w.orders.Close()
		}
		p.idle = slices.Delete(p.idle, 0, n)
	}
}

// counts returns the number of busy and of idle workers.
func (p *supervisors) counts() (busy, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.workers) - len(p.idle), len(p.idle)
}

// drop forgets a worker that has ended.
func (p *supervisors) drop(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.ended = true
	delete(p.workers, w)
	p.idle = slices.DeleteFunc(p.idle, func(other *worker) bool { return other == w })
}

// warm starts a supervisor for the next command in the background, unless one is idle or already being started.
func (p *supervisors) warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) > 0 || p.warming || p.maxIdle <= 0 {
		return
	}
	p.warming = true
	p.all.Go(func() {
		w, err := p.start()
		spare := err == nil && w.prepare(p.disableCgroups)
		p.mu.Lock()
		p.warming = false
		p.mu.Unlock()
		if err == nil {
			p.put(w, spare)
		}
	})
}

// prepare lets a worker do what the first command would otherwise wait for, and reports whether it has a spare
// directory then.
func (w *worker) prepare(disableCgroups bool) bool {
	if w.orders.Send(&order{Spare: w.spareDir, DisableCgroups: disableCgroups}) != nil {
		return false
	}
	t, ok := <-w.answers
	return ok && t.Spare
}

// makeDir makes the directory of a run. If the returned worker is not nil, it was idle, has the directory already, and
// is for give.
func (p *supervisors) makeDir(dir string) (*worker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 && p.idle[n-1].spare {
		w := p.idle[n-1]
		w.spare = false
		if os.Rename(w.spareDir, dir) == nil {
			p.idle = p.idle[:n-1]
			return w, nil
		}
	}
	return nil, supervisor.Create(dir)
}

// follow returns the link to a worker that is about to get the run in dir.
func (w *worker) follow(dir string) *link {
	run := filepath.Base(dir)
	box := newMailbox()
	w.news.Store(box)
	return &link{
		news: box, close: func() { box.fail(errNoMoreNews) },
		send: func(c call) error { return w.orders.Send(&order{Call: &c, Run: run}) },
	}
}

// give hands a run to a supervisor: to w, unless that is nil or has died.
func (p *supervisors) give(o *order, w *worker) (*worker, *link, error) {
	for used := true; ; w = nil {
		if w == nil {
			var err error
			if w, used, err = p.takeOne(); err != nil {
				return nil, nil, err
			}
		}
		o.Spare = w.spareDir
		l := w.follow(o.Dir)
		var t taken
		ok := w.orders.Send(o) == nil
		if ok {
			t, ok = <-w.answers
		}
		switch {
		case ok && t.Error != "":
			p.put(w, false)
			return nil, nil, errors.New("supervisor: " + t.Error)
		case ok:
			p.warm()
			return w, l, nil
		case hasBegun(o.Dir): // its lock and its frames tell what became of the command
			return w, l, nil
		case !used:
			return nil, nil, errors.New("the supervisor ended before it took the command")
		}
		// One that was idle has ended meanwhile. It may have had the directory, whose lock goes a moment later.
		if lock, err := lockDead(o.Dir); err == nil {
			_ = lock.Close()
		}
	}
}

// takeOne returns an idle worker or starts one.
func (p *supervisors) takeOne() (w *worker, used bool, err error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		w, p.idle = p.idle[n-1], p.idle[:n-1]
		w.spare = false // it removes the directory when it gets another one
	}
	p.mu.Unlock()
	if w != nil {
		return w, true, nil
	}
	w, err = p.start()
	return w, false, err
}

// close ends the idle supervisors and waits for their end. Supervisors with a command continue.
func (p *supervisors) close() {
	p.mu.Lock()
	p.closed = true
	if p.trims != nil {
		p.trims.Stop()
	}
	for w := range p.workers {
		_ = w.orders.Close()
	}
	p.mu.Unlock()
	p.all.Wait()
}
