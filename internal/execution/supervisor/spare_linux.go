package supervisor

import (
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"
)

// A supervisor without a command keeps the directory of the next run ready: locked, with a socket and an empty spool.
// The server renames it to the name of the run. So a short command neither makes nor removes files, which takes longer
// than to run it. Between two runs the directory has a name of its own, in which no server looks for a run.

// place is the directory of a run, or of the next one, and what a supervisor has open in it.
type place struct {
	lock     *os.File
	listener *net.UnixListener
	first    *os.File // the empty first segment of the spool; nil if there is none yet
}

// openPlace locks the directory and listens there.
func openPlace(dir string) (*place, error) {
	lock, err := Lock(dir)
	if err != nil {
		return nil, err
	}
	listener, err := Listen(dir)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &place{lock: lock, listener: listener}, nil
}

// close frees it. Whoever has got the directory can lock it then.
func (p *place) close() {
	_ = p.listener.Close()
	if p.first != nil {
		_ = p.first.Close()
	}
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	_ = p.lock.Close()
}

// removed reports whether the directory was removed with what is in it. One that is only not found under its name is
// not: whoever can rename a directory above it, which another command may, cannot end the run by that.
func (p *place) removed() bool {
	info, err := p.lock.Stat()
	return err == nil && info.Sys().(*syscall.Stat_t).Nlink == 0
}

// prepare makes a spare directory, and does beforehand what the first command would have to wait for.
func (o *owner) prepare(next *Order) error {
	o.openCgroups(next)
	if err := Create(next.Spare); err != nil {
		return err
	}
	p, err := openPlace(next.Spare)
	if err != nil {
		_ = os.RemoveAll(next.Spare)
		return err
	}
	o.spare, o.spareDir = p, next.Spare
	return nil
}

// placeOf returns the place of the run in dir: the spare one, if the server has renamed that, or one that is made now.
func (o *owner) placeOf(dir string) (*place, error) {
	p := o.spare
	if p == nil {
		return openPlace(dir)
	}
	o.spare = nil
	if same, err := IsLock(p.lock, dir); err == nil && same {
		if err := p.listener.SetDeadline(time.Time{}); err != nil {
			p.close()
			return nil, err
		}
		return p, nil
	}
	o.removeSpare(p)
	return openPlace(dir)
}

// removeSpare removes a spare directory that is not used.
func (o *owner) removeSpare(p *place) {
	_ = os.RemoveAll(o.spareDir)
	p.close()
}

// keepSpare makes the directory of a run that is over the spare one. It fails if the run has left other files there
// than every run has.
func (s *session) keepSpare() bool {
	o := s.owner
	if s.spareDir == "" || s.unkilled || o.gone.Load() {
		return false
	}
	if s.endOnDisk { // a store that took its time
		_ = os.Remove(filepath.Join(s.dir, endFile))
	}
	if !s.hasUsualFiles() {
		return false
	}
	first, ok := s.writer.Recycle()
	if !ok {
		return false
	}
	s.place.first = first
	if same, err := IsLock(s.lock, s.dir); err != nil || !same {
		return false
	}
	// The lock file of a spare directory stays empty: see HasBegun.
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	if s.lock.Truncate(0) != nil || os.Rename(s.dir, s.spareDir) != nil {
		return false
	}
	o.spare, o.spareDir = s.place, s.spareDir
	return true
}

// hasUsualFiles reports whether no other files are in the directory of the run than a spare one may have.
func (s *session) hasUsualFiles() bool {
	usual := []string{lockFile, BriefFile, socketFile, FirstSegment}
	dir, err := os.Open(s.dir)
	if err != nil {
		return false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return err == nil && !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(usual, name) })
}
