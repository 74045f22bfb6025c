package supervisor

import (
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"reprise/internal/execution/command"
	"reprise/internal/isolation"
	"reprise/internal/spawn"
)

// Name is the first argument of a supervisor.
const Name = "reprise-supervisor"

// owner is a supervisor process.
type owner struct {
	orders *Conn
	system command.System
	probed bool // cgroups are used where they can be
	term   chan os.Signal

	spare    *place // nil while there is none
	spareDir string
	gone     atomic.Bool // the server has ended, so no other run will come
}

// Serve makes this process a supervisor, which runs one command after the other until its server has ended.
func Serve() error {
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
		orders: NewConn(raw), system: command.System{Spawner: spawn.New()}, term: make(chan os.Signal, 1),
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
		var next Order
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
func (o *owner) take(next *Order) (s *session, err error) {
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
	if attemptIn(next.Dir) != next.Attempt { // a later server has made another attempt
		return nil, errOutOfDate
	}
	o.openCgroups(next)
	trace := o.system.Trace(next.Plan) + "\n"
	if _, err := p.lock.WriteAt([]byte(trace), 0); err != nil { // see HasBegun
		return nil, err
	}
	if _, err := p.lock.Seek(0, io.SeekEnd); err == nil {
		_ = debug.SetCrashOutput(p.lock, debug.CrashOptions{})
	}
	return newSession(o, next, p), nil
}

// openCgroups opens the cgroups of this supervisor when it gets its first order.
func (o *owner) openCgroups(next *Order) {
	if !o.probed && !next.DisableCgroups {
		o.probed = true
		_ = o.system.UseCgroups()
	}
}
