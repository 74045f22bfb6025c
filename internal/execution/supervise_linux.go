package execution

import (
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reprise/internal/execution/command"
	"reprise/internal/isolation"
	"reprise/internal/spawn"
	"reprise/internal/supervisor"
)

// supervisorName is the first argument of a supervisor.
const supervisorName = "reprise-supervisor"

// Supervise makes this process a supervisor or a collector of artifacts if a Host has started it as one, and does not
// return then. Every program whose Hosts have an Options.RunsDir, or keep artifacts, calls it first in main.
func Supervise() {
	canCollect.Store(true)
	if len(os.Args) != 1 {
		return
	}
	serve := map[string]func() error{supervisorName: supervise, collectorName: collectAll}[os.Args[0]]
	if serve == nil {
		return
	}
	if err := serve(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// owner is a supervisor process.
type owner struct {
	orders *supervisor.Conn
	system command.System
	probed bool // cgroups are used where they can be
	term   chan os.Signal

	spare    *place // nil while there is none
	spareDir string
	gone     atomic.Bool // the server has ended, so no other run will come
}

// supervise runs one command after the other until its server has ended.
func supervise() error {
	if err := isolation.Undumpable(); err != nil {
		return err
	}
	debug.SetGCPercent(50) // its buffers are used again, and there is one supervisor for each command
	raw, err := net.FileConn(os.Stdin)
	if err != nil {
		return err
	}
	if null, err := os.Open(os.DevNull); err == nil { // so that nothing else becomes descriptor 0
		_ = unix.Dup2(int(null.Fd()), 0)
		_ = null.Close()
	}
	o := &owner{
		orders: supervisor.NewConn(raw), system: command.System{Spawner: spawn.New()}, term: make(chan os.Signal, 1),
	}
	if err := o.system.AdoptOrphans(); err != nil {
		return err
	}
	wakeSpawner(o.system.Spawner)
	// Not signal.Ignore: the command would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT)
	signal.Notify(o.term, syscall.SIGTERM)
	defer o.system.Close()
	o.obey()
	if o.spare != nil {
		o.removeSpare(o.spare)
	}
	return nil
}

// obey carries out the orders of the server until the server has ended, and with it the last run.
func (o *owner) obey() {
	var s *session
	var over sync.WaitGroup // the run of s
	defer over.Wait()
	for {
		var next order
		if o.orders.Receive(&next) != nil {
			o.gone.Store(true)
			if s != nil {
				s.leave(o.orders)
			}
			return
		}
		if next.Call != nil {
			if s != nil && (next.Run == "" || next.Run == filepath.Base(s.dir)) {
				s.note(next.Call)
			}
			continue
		}
		over.Wait()
		if next.Plan == nil {
			err := o.prepare(&next)
			_ = o.orders.Send(taken{Spare: err == nil})
			continue
		}
		var err error
		s, err = o.take(&next)
		answer := taken{}
		if err != nil {
			answer.Error = err.Error()
		}
		_ = o.orders.Send(answer) // the server may have died: the command runs all the same
		if err == nil {
			over.Go(func() {
				s.run()
				if s.unkilled {
					o.endLeft()
					return
				}
				_ = o.orders.Send(taken{Idle: true, Spare: o.spare != nil})
			})
		}
	}
}

// endLeft continues to kill the processes that a run has left, until none is there or the server has ended. They would
// count as processes of the next run, so this supervisor takes none and ends.
func (o *owner) endLeft() {
	_ = o.orders.Send(taken{Spent: true})
	o.system.KillOrphans(o.gone.Load)
	_ = o.orders.Close()
}

// errOutOfDate refuses the order of a server that a later one has followed.
var errOutOfDate = errors.New("the order is out of date")

// take locks the directory of a run and listens there.
func (o *owner) take(next *order) (s *session, err error) {
	p, err := o.placeOf(next.Dir)
	if err != nil {
		return nil, err
	}
	select {
	case <-o.term: // it came before this command, and is not for it
	default:
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if loadBrief(next.Dir).Attempt != next.Attempt { // a later server has made another attempt
		return nil, errOutOfDate
	}
	o.openCgroups(next)
	trace := o.system.Trace(next.Plan) + "\n"
	if _, err := p.lock.WriteAt([]byte(trace), 0); err != nil { // see hasBegun
		return nil, err
	}
	if _, err := p.lock.Seek(0, io.SeekEnd); err == nil {
		_ = debug.SetCrashOutput(p.lock, debug.CrashOptions{})
	}
	return newSession(o, next, p), nil
}

// openCgroups opens the cgroups of this supervisor when it gets its first order.
func (o *owner) openCgroups(next *order) {
	if !o.probed && !next.DisableCgroups {
		o.probed = true
		_ = o.system.UseCgroups()
	}
}

// session is a supervisor with a command.
type session struct {
	*command.Job
	*place
	plan     *command.Plan
	owner    *owner
	dir      string
	spareDir string // see order.Spare
	secret   string
	writer   *supervisor.Writer

	mu        sync.Mutex
	changed   *sync.Cond // on mu: there is news
	startTold bool       // the time in which only a start is no news is over
	ended     *command.Ending
	done      chan struct{} // closed when the command has ended
	endOnDisk bool          // the end was written to the directory
	forgotten chan struct{} // closed when the end is kept elsewhere
	forget    func()
	unkilled  bool // processes of the run are left

	serving sync.WaitGroup
	// conns are the open connections: those over the socket, and that of the orders while the server that started the
	// command is there. The map is nil once all are closed.
	conns map[*supervisor.Conn]bool
	left  chan struct{} // of size 1: no server is connected any more
}

func newSession(o *owner, next *order, at *place) *session {
	p := next.Plan
	s := &session{
		Job: command.NewJob(p.StdinOpen, p.TTY != nil, command.NewDecision()), place: at, plan: p, owner: o,
		dir: next.Dir, spareDir: next.Spare, secret: next.Secret,
		writer: supervisor.NewWriter(next.Dir, next.SpoolBytes),
		done:   make(chan struct{}), forgotten: make(chan struct{}),
		conns: map[*supervisor.Conn]bool{o.orders: true}, left: make(chan struct{}, 1),
	}
	s.writer.OnFull = s.tell
	s.writer.Reuse(at.first)
	at.first = nil
	s.changed = sync.NewCond(&s.mu)
	s.forget = sync.OnceFunc(func() { close(s.forgotten) })
	return s
}

// run runs the command, and serves servers until the end is kept elsewhere.
func (s *session) run() {
	s.serving.Go(s.accept)
	s.serving.Go(func() {
		s.follow(s.owner.orders, &news{}, func(n *news) error { return s.owner.orders.Send(taken{News: n}) })
	})
	over := make(chan struct{})
	s.serving.Go(func() { s.attendOutside(over) })
	e := s.runCommand()
	s.end(e)
	<-s.forgotten
	close(over)
	s.close()
}

// spoolBytes is the output that waits for the disk, above which the command waits: a supervisor should use little
// memory.
const spoolBytes = 128 << 10

// runCommand runs it to its end, whose output is then in the spool.
func (s *session) runCommand() command.Ending {
	// The first frame tells that the command was started, unless the disk is full.
	var started *time.Timer
	defer func() {
		if started != nil {
			started.Stop()
		}
	}()
	wide := false
	e := s.Run(&s.owner.system, s.plan, &command.Output{
		Started: func() { started = time.AfterFunc(startedNews, s.tellStart) },
		Write: func(chunks []command.Chunk) error {
			err := s.writer.Append(chunks)
			s.tell()
			if all := s.writer.Progress().Totals; !wide && all.Stdout+all.Stderr > narrowBytes {
				wide = true
				runtime.GOMAXPROCS(min(runtime.NumCPU(), mostProcs))
			}
			if err != nil {
				s.Stop(command.Verdict{Outcome: Lost, Reason: spoolGone, Now: true})
			}
			return err
		},
		Most: spoolBytes,
	})
	if wide {
		runtime.GOMAXPROCS(1)
	}
	s.unkilled = e.ProcessesLeft
	e.Bytes = s.writer.Progress().Totals
	return s.Judge(e)
}

const (
	// narrowBytes is how much output passes through one thread. A supervisor starts with GOMAXPROCS=1, because waking
	// a second thread costs more than it gains for a command that prints little.
	narrowBytes = 4 << 20
	// mostProcs is GOMAXPROCS of a supervisor whose command prints more: one goroutine reads while another one writes.
	mostProcs = 2
)

// tell wakes the calls that wait for news.
func (s *session) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// tellStart is tell for a start that nothing has followed yet.
func (s *session) tellStart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startTold = true
	s.changed.Broadcast()
}

// end keeps the end until it is kept elsewhere, in a place where the server finds it even if this process is killed.
func (s *session) end(e command.Ending) {
	s.mu.Lock()
	s.ended = &e
	s.mu.Unlock()
	s.Close()
	close(s.done)
	s.tell()
	select {
	case <-s.forgotten: // at once, as nearly always
		return
	case <-s.left: // nobody fetches it
	case <-time.After(endInMemory):
	}
	select {
	case <-s.forgotten:
	default:
		s.endOnDisk = true
		// a full disk: then it is in memory alone
		kept := keptEnding{Ending: e, Run: filepath.Base(s.dir), Tail: s.writer.Progress().Tail}
		_ = supervisor.WriteFile(filepath.Join(s.dir, endFile), mustMarshal(kept))
	}
}

// startedNews is when the server hears of the start even if no output and no end has followed, or if nothing can be
// written to the spool. Before, the event of the start waits for what follows, so that a short command needs one commit
// for both.
const startedNews = 5 * time.Millisecond

// endInMemory is how long an end stays only in memory, for a connected server to fetch it.
const endInMemory = 50 * time.Millisecond

const (
	// lookEvery is the time between two looks whether the directory is still there.
	lookEvery = 2 * time.Second
	// lastCall is how long a supervisor whose directory was removed waits for its server to fetch the end.
	lastCall = 10 * time.Second
)

// attendOutside ends the command when its directory is removed, or when this process gets a signal to end.
func (s *session) attendOutside(over <-chan struct{}) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	stopping := s.Stopping()
	for {
		select {
		case <-over:
			return
		case <-stopping:
			stopping = nil
			s.tell()
		case <-s.owner.term:
			s.Stop(command.Verdict{Outcome: Cancelled, Reason: "its supervisor was asked to end"})
		case <-tick.C:
			if !s.place.removed() {
				continue
			}
			s.Stop(command.Verdict{Outcome: Lost, Reason: spoolGone, Now: true})
			s.writer.Close()
			select {
			case <-s.done:
			case <-over:
				return
			}
			select {
			case <-time.After(lastCall):
				s.forget()
			case <-s.forgotten:
			}
			<-over
			return
		}
	}
}

// close frees the resources of the run, or keeps them for the next one.
func (s *session) close() {
	_ = s.listener.SetDeadline(time.Now()) // ends accept
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.changed.Broadcast()
	s.mu.Unlock()
	delete(conns, s.owner.orders) // for the next run
	for c := range conns {
		_ = c.Close()
	}
	s.serving.Wait()
	if s.keepSpare() {
		return
	}
	s.writer.Release()
	_ = os.RemoveAll(s.dir)
	s.place.close()
}
