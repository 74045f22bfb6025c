package supervisor

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"reprise/internal/execution/command"
)

// session is a supervisor with a command.
type session struct {
	*command.Job
	*place
	plan     *command.Plan
	owner    *owner
	dir      string
	spareDir string // see Order.Spare
	secret   string
	writer   *Writer

	mu        sync.Mutex
	changed   *sync.Cond  // on mu: there is news
	startTold atomic.Bool // the time in which only a start is no news is over
	ended     *command.Ending
	done      chan struct{} // closed when the command has ended
	endOnDisk bool          // the end was written to the directory
	forgotten chan struct{} // closed when the end is kept elsewhere
	forget    func()
	unkilled  bool // processes of the run are left

	serving sync.WaitGroup
	// conns are the open connections: those over the socket, and that of the orders while the server that started the
	// command is there. The map is nil once all are closed.
	conns map[*Conn]bool
	left  chan struct{} // of size 1: no server is connected any more
}

func newSession(o *owner, next *Order, at *place) *session {
	p := next.Plan
	s := &session{
		Job: command.NewJob(p.StdinOpen, p.TTY != nil, command.NewDecision()), place: at, plan: p, owner: o,
		dir: next.Dir, spareDir: next.Spare, secret: next.Secret,
		writer: NewWriter(next.Dir, next.SpoolBytes),
		done:   make(chan struct{}), forgotten: make(chan struct{}),
		conns: map[*Conn]bool{o.orders: true}, left: make(chan struct{}, 1),
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
		s.follow(s.owner.orders, &News{}, func(n *News) error { return s.owner.orders.Send(taken{News: n}) })
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
	// The first frame says that the command was started, unless the disk is full.
	var started *time.Timer
	defer func() {
		if started != nil {
			started.Stop()
		}
	}()
	wide := false
	e := s.Run(&s.owner.system, s.plan, &command.Output{
		Started: func() {
			started = time.AfterFunc(startedNews, func() {
				s.startTold.Store(true)
				s.tell()
			})
		},
		Write: func(chunks []command.Chunk) error {
			err := s.writer.Append(chunks)
			s.tell()
			if all := s.writer.Progress().Totals; !wide && all.Stdout+all.Stderr > narrowBytes {
				wide = true
				runtime.GOMAXPROCS(min(runtime.NumCPU(), mostProcs))
			}
			if err != nil {
				s.Stop(command.Verdict{Outcome: command.Lost, Reason: SpoolGone, Now: true})
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
		_ = writeEnding(s.dir, &e, s.writer.Progress().Tail)
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
			s.Stop(command.Verdict{Outcome: command.Cancelled, Reason: "its supervisor was asked to end"})
		case <-tick.C:
			if !s.place.removed() {
				continue
			}
			s.Stop(command.Verdict{Outcome: command.Lost, Reason: SpoolGone, Now: true})
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
