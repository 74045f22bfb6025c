package sqlitestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise/store/internal/driver"
)

const (
	// leastShare and mostShare bound the size of the write-ahead log, which is a sixteenth of what is free.
	leastShare, mostShare, diskShare = 256 << 10, 16 << 20, 16
	// leastRoom is the room that the write-ahead log is given at least.
	leastRoom = 64 << 10
	// tryFull is how often an append tries a full disk where nothing says that it has more room.
	tryFull = time.Second / 2
)

// errFull refuses an append before anything is tried.
var errFull = fmt.Errorf("%w: too little is left beside the reserve", sqlite.ResultFull.ToError())

// isFull reports whether err means that the disk has no room.
func isFull(err error) bool {
	code := sqlite.ErrCode(err)
	return code.ToPrimary() == sqlite.ResultFull || code == sqlite.ResultIOErrSHMSize ||
		errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// space is what a writer knows of the disk. A reserve, a file of its own, lets removals, and the copying of the
// write-ahead log into the file, work when the disk is full. Appends get room only if the reserve is whole.
type space struct {
	dir     string
	share   int64 // a sixteenth of what was free when the file was opened, within bounds
	file    *os.File
	reserve driver.Reserve

	half bool // the file cannot give free pages back

	fullAt   time.Time // when an append found no room; zero if none did, or something was removed since
	fullWith int64     // what was free then
}

// open takes over the reserve that the last program has left, or makes its file. It releases some of it, so that
// opening the database has room.
func (d *space) open(path string) {
	d.dir = filepath.Dir(path)
	size := func(name string) int64 {
		info, err := os.Stat(path + name)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	log, reserved := size("-wal"), size(".reserve")
	if file, err := os.OpenFile(path+".reserve", os.O_CREATE|os.O_RDWR, 0o600); err == nil {
		d.file = file
		d.reserve.Use(reserveFile{file}, reserved)
		_ = d.reserve.Hold(max(0, reserved-leastShare))
	}
	// On a full disk the share is what it was for the last program, whose log may make the file grow.
	d.share = min(max((d.free()+log+d.reserve.Held())/diskShare, log, reserved/2, leastShare), mostShare)
}

type reserveFile struct{ *os.File }

func (f reserveFile) Allocate(size int64) error { return driver.Allocate(f.File, size) }

// close removes the reserve, unless the disk is nearly full: a closed store is one file.
func (d *space) close() {
	if d.file == nil {
		return
	}
	name := d.file.Name()
	_ = d.file.Close()
	if d.free() > 2*d.size() || d.reserve.Held() == 0 {
		_ = os.Remove(name)
	}
}

// size is that of the whole reserve. A half of it takes the growth of the file by all that the write-ahead log holds.
// It is all of it for a file that cannot give free pages back, so that the log has room for what is written into them.
func (d *space) size() int64 {
	if d.half {
		return d.share
	}
	return 2 * d.share
}

// free returns what the disk has left; much if it does not tell.
func (d *space) free() int64 {
	free, err := driver.FreeBytes(d.dir)
	if err != nil {
		return 1 << 60
	}
	return free
}

// hold makes the reserve whole, or as large as it can be, and reports whether appends have room. Where nothing can be
// reserved for another reason than room, it is done without.
func (d *space) hold() bool {
	want, held := d.size(), d.reserve.Held()
	// The system may have more than it tells, or less: the superuser has blocks of its own.
	for isFull(d.reserve.Hold(want)) && want-held >= 2*pageSize {
		want -= (want - held) / 2
	}
	return want == d.size() && d.free() >= leastRoom
}

// refuses reports whether an append is refused at once.
func (d *space) refuses() bool {
	if !d.fullAt.IsZero() && time.Since(d.fullAt) < tryFull && d.free() <= d.fullWith+leastRoom {
		return true
	}
	missing := d.size() - d.reserve.Held()
	return d.file != nil && missing > 0 && (d.free() < missing+leastRoom || !d.hold())
}

// takes reports whether there is room for a commit that is larger than the log usually is: in the log, and then in the
// file, for whose growth the reserve may not do.
func (d *space) takes(size int64) bool { return size <= d.share/2 || d.free() >= 2*size }

// adding returns what runs a function that adds size bytes of data. On a full disk it gives back what it can, and runs
// the function again. The caller has the turn.
func (w *writer) adding(size int64) func(f func() error) error {
	return func(f func() error) error {
		if w.space.refuses() {
			return errFull
		}
		err := errFull
		if w.space.takes(size) {
			err = f()
		}
		if isFull(err) && w.giveBack(size) && w.space.takes(size) {
			err = f()
		}
		if isFull(err) {
			w.space.fullAt, w.space.fullWith = time.Now(), w.space.free()
		}
		return err
	}
}

// freeing runs f, which removes data. On a full disk it may use the reserve, and gives space back afterwards. The
// caller has the turn.
func (w *writer) freeing(f func() error) error {
	err := f()
	if isFull(err) && w.shrinkLog() == nil {
		err = f()
	}
	if isFull(err) && w.space.reserve.Release() {
		_ = w.shrinkLog()
		err = f()
	}
	full := !w.space.fullAt.IsZero() || w.space.file != nil && w.space.reserve.Held() < w.space.size()
	if err == nil && full {
		w.giveBack(0)
		w.space.fullAt = time.Time{}
	}
	return err
}

// giveBack empties the write-ahead log, for which it may use the reserve, and returns free pages to the disk until it
// has room for the reserve and a commit of size bytes. It reports whether appends have room.
func (w *writer) giveBack(size int64) bool {
	if isFull(w.shrinkLog()) && w.space.reserve.Release() {
		_ = w.shrinkLog()
	}
	for enough := w.space.size() + max(w.space.size(), 2*size); w.space.free()+w.space.reserve.Held() < enough; {
		pages, err := pragma(w.conn, "freelist_count")
		if err != nil || pages == 0 {
			break
		}
		err = w.vacuum()
		if isFull(err) && w.space.reserve.Release() {
			err = w.vacuum()
		}
		left, _ := pragma(w.conn, "freelist_count")
		w.space.half = w.space.half || err == nil && left >= pages
		if err != nil || w.space.half {
			break
		}
	}
	return w.space.hold()
}

// vacuum returns some free pages to the disk.
func (w *writer) vacuum() error {
	pages := min(vacuumPages, w.space.share/4/pageSize)
	err := execute(w.conn, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", pages))
	return errors.Join(err, w.shrinkLog())
}
