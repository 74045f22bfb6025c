package logstore

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"reprise"
	"reprise/store/internal/driver"
)

// Options are the settings of Open. The zero value of each field means its default.
type Options struct {
	// SegmentBytes is the size of the log files, from 64 KiB to 1 GiB. A file is smaller if the disk has less than 16
	// times as much free, and larger if a commit needs it. Default: 64 MiB.
	SegmentBytes int64
	// MaxStreams limits the streams and the marks of removed streams together, which are in memory. At the limit the
	// marks that end first are forgotten; without any, Create returns reprise.ErrQuota. A store that has more is
	// opened. Default: 1,048,576.
	MaxStreams int
	// Logger logs failures in the background. Default: silent.
	Logger *slog.Logger

	saveChunk  int           // bytes of a snapshot after which appends get a turn
	blockBytes int           // of an index
	cacheBytes int64         // of indexes
	tryFull    time.Duration // after the disk had no room, nothing is tried for so long
	idle       bool          // the keeper does not start work on its own
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.SegmentBytes == 0 {
		d.SegmentBytes = 64 << 20
	}
	if d.MaxStreams == 0 {
		d.MaxStreams = 1 << 20
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.cacheBytes == 0 {
		d.cacheBytes = 64 << 20
	}
	if d.blockBytes == 0 {
		d.blockBytes = 8 << 10
	}
	if d.saveChunk == 0 {
		d.saveChunk = 256 << 10
	}
	if d.tryFull == 0 {
		d.tryFull = time.Second / 2
	}
	return d
}

// Store is a reprise.Store in a directory of segments. It implements reprise.Sweeper and reprise.Sizer.
type Store struct {
	opts Options
	disk disk
	lock []*os.File // none for a disk of tests

	// use is held for reading by each call and for writing by Close.
	use driver.Gate

	queued queued
	// turn is held by a goroutine that changes the state. Only that goroutine may read the state without mu.
	turn chan struct{}

	// mu guards the state and its segments. It is held for writing while records are applied, and never during I/O.
	mu sync.RWMutex
	state

	// The following fields belong to the goroutine that has the turn.

	active     *segment
	nextNumber uint64 // of segments
	nextCommit uint64
	groups     uint32
	frame      []byte
	records    []record
	uncertain  bool // a write has panicked: state and disk may differ, and nothing more is written

	reserve     driver.Reserve
	reserveFile file
	fullUntil   time.Time // no append tries to get room before
	settled     uint32    // the newest segment when settleTrimmed was last called
	tidied      uint64    // the next commit when the keeper had last done what it could on a full disk

	step int64 // the size of a segment that fits the disk; guarded by mu as well

	// The newest snapshot; guarded by mu as well.

	base          uint64 // the segment from which Open reads the log, 0 without a snapshot
	snapshotBytes int64
	sinceSnapshot int64  // bytes of commits
	snapshotAt    int64  // the bytes at which the next snapshot is due
	snapshots     uint32 // number of snapshots begun

	keeper keeper
	blocks *blockCache
}

var (
	_ reprise.Store   = (*Store)(nil)
	_ reprise.Sweeper = (*Store)(nil)
	_ reprise.Sizer   = (*Store)(nil)

	_ reprise.CreateAppender = (*Store)(nil)
)

const (
	lockName        = "lock"
	minSegmentBytes = 64 << 10
	maxOptionBytes  = 1 << 30
)

// Open opens or creates the store in the directory path, with permissions for its owner only. opts may be nil. The
// error is ErrInUse, ErrNotOurs, ErrNewer, ErrReadOnly or ErrDamaged. Otherwise it wraps reprise.ErrInvalid if path is
// not a valid directory, fs.ErrNotExist if the parent directory does not exist, and reprise.ErrUnavailable if a retry
// may help.
func Open(ctx context.Context, path string, opts *Options) (_ *Store, err error) {
	defer func() { err = openError(ctx, path, err) }()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	o := opts.withDefaults()
	o.SegmentBytes = min(max(o.SegmentBytes, minSegmentBytes), maxOptionBytes)
	made := false
	switch err := os.Mkdir(path, 0o700); {
	case err == nil:
		made = true
	case !errors.Is(err, os.ErrExist):
		return nil, err
	}
	if !made {
		if err := probe(folder(path)); err != nil {
			return nil, err
		}
	}
	lock, err := lockFolder(path)
	if err != nil {
		return nil, err
	}
	if made {
		err = syncFolder(filepath.Dir(path))
	}
	var s *Store
	if err == nil {
		s, err = open(folder(path), o)
	}
	if err != nil {
		return nil, errors.Join(err, unlock(lock))
	}
	s.lock = lock
	return s, nil
}

// probe rejects a directory of another program before anything in it is changed.
func probe(d disk) error {
	names, err := d.list()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ours := parseName(name); ours || name == lockName {
			return nil
		}
	}
	if len(names) > 0 {
		return ErrNotOurs
	}
	return nil
}

// lockFolder locks the directory, so that it stays locked when the lock file is removed, and the file, which earlier
// versions lock alone.
func lockFolder(path string) (locked []*os.File, err error) {
	defer func() {
		if err != nil {
			_ = unlock(locked)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return locked, err
	}
	locked = append(locked, f)
	if lockDir(f) != nil {
		return locked, ErrInUse
	}
	if f, err = os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return locked, err
	}
	locked = append(locked, f)
	if lock(f) != nil {
		return locked, ErrInUse
	}
	return locked, nil
}

func unlock(locked []*os.File) (err error) {
	for _, f := range slices.Backward(locked) {
		err = errors.Join(err, f.Close())
	}
	return err
}

// open opens the store on a disk that nothing else uses.
func open(d disk, o Options) (*Store, error) {
	s := &Store{opts: o, disk: d, turn: make(chan struct{}, 1), state: newState()}
	s.keeper.init()
	s.blocks = newBlockCache(o.cacheBytes)
	s.step, _ = s.segmentBytes()
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, s.closeFiles())
	}
	s.openReserve()
	s.keeper.ask() // there may be indexes to write
	if !o.idle {
		s.keeper.work.Go(s.keep)
	}
	return s, nil
}

// Close marks the store as closed and closes the files. It waits for calls under way.
func (s *Store) Close() (err error) {
	defer func() { err = storeError(context.Background(), err) }()
	if !s.use.Close() {
		return nil
	}
	close(s.keeper.stop)
	s.keeper.work.Wait()
	// A failure loses nothing but that a log that is cut later cannot be told from a torn write.
	if !s.active.failed && !s.uncertain && s.active.file.Truncate(s.active.end) == nil {
		_ = s.markClosed()
	}
	return errors.Join(s.closeFiles(), unlock(s.lock))
}

func (s *Store) closeFiles() (err error) {
	for _, seg := range s.segments {
		err = errors.Join(err, seg.file.Close())
	}
	if s.reserveFile != nil {
		err = errors.Join(err, s.reserveFile.Close())
	}
	return err
}
