package supervisor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/spawn"
)

var errNeedsLinux = fmt.Errorf("only Linux supports it: %w", errors.ErrUnsupported)

// Pool has the supervisors that a server has started, and the directories of its runs.
type Pool struct {
	dir     string // of all runs
	secret  string
	opts    Options
	spawner *spawn.Spawner

	mu      sync.Mutex
	workers map[*Worker]bool
	idle    []*Worker
	trims   *time.Timer // ends those beyond Options.MaxIdle; nil while there are none
	closed  bool
	warming bool
	all     sync.WaitGroup
}

// OpenPool makes the directory of the runs. No other Pool may use it. The error wraps errors.ErrUnsupported on systems
// other than Linux.
func OpenPool(runs string, s *spawn.Spawner, opts Options) (*Pool, error) {
	if !supported {
		return nil, errNeedsLinux
	}
	dir, err := filepath.Abs(runs)
	if err != nil {
		return nil, err
	}
	secret, err := LoadSecret(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of the runs: %w", err)
	}
	p := &Pool{dir: dir, secret: secret, opts: opts, spawner: s, workers: map[*Worker]bool{}}
	if err := p.removeSpares(); err != nil {
		return nil, fmt.Errorf("directory of the runs: %w", err)
	}
	return p, nil
}

// Dir is the directory of all runs.
func (p *Pool) Dir() string { return p.dir }

// Remote returns the supervisor of a run by its name, which is never used twice. It need not be one of the Pool.
func (p *Pool) Remote(run string) *Remote {
	return &Remote{Dir: filepath.Join(p.dir, run), Secret: p.secret}
}

// Worker is a supervisor process of this server.
type Worker struct {
	owner   *Pool
	process *os.Process
	orders  *Conn
	answers chan taken // closed when it has ended
	// link is the link of the run that it has, or had last.
	link atomic.Pointer[Link]
	left atomic.Bool
	// spareDir is where it keeps a directory between two runs, and spare whether it has one. spare and ended are
	// guarded by owner.mu.
	spareDir string
	spare    bool
	ended    bool
}

// start starts a supervisor. It is this very program, even if its file was replaced or removed meanwhile.
func (p *Pool) start() (*Worker, error) {
	process, raw, err := startSupervisor(p.spawner)
	if err != nil {
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	w := &Worker{
		owner: p, process: process, orders: NewConn(raw), answers: make(chan taken, 1),
		spareDir: filepath.Join(p.dir, SparePrefix+rand.Text()),
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

// attend receives the answers of the worker until it ends.
func (w *Worker) attend() {
	for {
		var t taken
		if err := w.orders.Receive(&t); err != nil {
			break
		}
		switch {
		case t.News != nil:
			w.link.Load().put(t.News)
		case t.Idle:
			w.link.Load().fail(errNoMoreNews)
			w.owner.put(w, t.Spare)
		case t.Spent: // it ends by itself
			w.link.Load().fail(errNoMoreNews)
		default:
			w.answers <- t
		}
	}
	close(w.answers)
	if l := w.link.Load(); l != nil {
		l.fail(errNoMoreNews)
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

// Leave lets the worker be when it does not end with the Pool, because its command goes on.
func (w *Worker) Leave() { w.left.Store(true) }

// put returns an idle worker to the pool. spare says whether it has a spare directory.
func (p *Pool) put(w *Worker, spare bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.ended {
		return
	}
	w.spare = spare
	if p.closed || len(p.idle) >= burstIdle*p.opts.MaxIdle {
		_ = w.orders.Close() // then it ends
		return
	}
	p.idle = append(p.idle, w)
	if len(p.idle) > p.opts.MaxIdle && p.trims == nil {
		p.trims = time.AfterFunc(trimAfter, p.trim)
	}
}

// trim ends the workers beyond maxIdle that have been idle for the longest time.
func (p *Pool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trims = nil
	if n := len(p.idle) - p.opts.MaxIdle; n > 0 && !p.closed {
		for _, w := range p.idle[:n] {
			_ = w.orders.Close()
		}
		p.idle = slices.Delete(p.idle, 0, n)
	}
}

// Counts returns the number of busy and of idle workers.
func (p *Pool) Counts() (busy, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.workers) - len(p.idle), len(p.idle)
}

// drop forgets a worker that has ended.
func (p *Pool) drop(w *Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.ended = true
	delete(p.workers, w)
	p.idle = slices.DeleteFunc(p.idle, func(other *Worker) bool { return other == w })
}

// Warm starts a supervisor for the next command in the background, unless one is idle or already being started.
func (p *Pool) Warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) > 0 || p.warming || p.opts.MaxIdle <= 0 {
		return
	}
	p.warming = true
	p.all.Go(func() {
		w, err := p.start()
		spare := err == nil && w.prepare(p.opts.DisableCgroups)
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
func (w *Worker) prepare(disableCgroups bool) bool {
	if w.orders.Send(&Order{Spare: w.spareDir, DisableCgroups: disableCgroups}) != nil {
		return false
	}
	t, ok := <-w.answers
	return ok && t.Spare
}

// MakeDir makes the directory of a run. If the returned worker is not nil, it was idle, has the directory already, and
// is for Give or PutBack.
func (p *Pool) MakeDir(dir string) (*Worker, error) {
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
	return nil, Create(dir)
}

// PutBack returns a worker of MakeDir, which may be nil, whose run has come to nothing.
func (p *Pool) PutBack(w *Worker) {
	if w != nil {
		p.put(w, false)
	}
}

// follow returns the link to a worker that is about to get the run in dir.
func (w *Worker) follow(dir string) *Link {
	run := filepath.Base(dir)
	l := newLink(func(c call) error { return w.orders.Send(&Order{Call: &c, Run: run}) }, nil)
	w.link.Store(l)
	return l
}

// Give hands a run to a supervisor: to w, unless that is nil or has died. The order names Dir, SpoolBytes, Plan and
// Attempt.
func (p *Pool) Give(o *Order, w *Worker) (*Worker, *Link, error) {
	o.Secret, o.DisableCgroups = p.secret, p.opts.DisableCgroups
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
			p.Warm()
			return w, l, nil
		case HasBegun(o.Dir): // its lock and its frames tell what became of the command
			return w, l, nil
		case !used:
			return nil, nil, errors.New("the supervisor ended before it took the command")
		}
		// One that was idle has ended meanwhile. It may have had the directory, whose lock goes a moment later.
		if lock, err := LockDead(o.Dir); err == nil {
			_ = lock.Close()
		}
	}
}

// takeOne returns an idle worker or starts one.
func (p *Pool) takeOne() (w *Worker, used bool, err error) {
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

// Close ends the idle supervisors and waits for their end. Supervisors with a command continue.
func (p *Pool) Close() {
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

// removeSpares removes the directories that supervisors without a command have left because they were killed. A
// supervisor that lives removes its own.
func (p *Pool) removeSpares() error {
	left, err := filepath.Glob(filepath.Join(p.dir, SparePrefix+"*"))
	for _, dir := range left {
		lock, lockErr := Lock(dir)
		if errors.Is(lockErr, ErrHeld) {
			continue
		}
		err = errors.Join(err, os.RemoveAll(dir))
		if lockErr == nil {
			_ = lock.Close()
		}
	}
	return err
}
