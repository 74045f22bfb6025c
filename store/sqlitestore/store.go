package sqlitestore

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
	"reprise/store/internal/driver"
)

// Options are the settings of Open. The zero value of each field means its default.
type Options struct {
	// Sync says when an append is acknowledged. Default: SyncFull.
	Sync Sync
	// MaxBytes bounds the file. Appends beyond it fail with reprise.ErrUnavailable until something is removed. Default:
	// no limit but the disk.
	MaxBytes int64
	// FoldBytes is the size of small batches that wait in the journal, and in memory, until they are folded. Appends
	// wait while the waiting batches have four times this size. Default: 8 MiB, or a sixteenth of what the disk has
	// free if that is less.
	FoldBytes int
	// FoldAfter is the longest time that small batches wait if few arrive. Default: 10 s.
	FoldAfter time.Duration
	// Readers is the maximum number of concurrent reads. Default: 4.
	Readers int
	// Logger logs failures of folding. Default: silent.
	Logger *slog.Logger

	maxRewrite int64 // see Store.maxRewrite
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.FoldAfter == 0 {
		d.FoldAfter = 10 * time.Second
	}
	if d.Readers == 0 {
		d.Readers = 4
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Store is a reprise.Store in a SQLite file. It implements reprise.Sweeper and reprise.Sizer.
type Store struct {
	path string
	opts Options
	lock *os.File
	data *os.File // locked too; closed after all connections, since that releases the locks of SQLite

	// use is held for reading by each call and for writing by Close.
	use driver.Gate

	readers chan *sqlite.Conn
	writer  writer
	cache   cache

	labels  bool          // the file has a table of them
	folding turn          // of foldAll
	foldNow chan struct{} // wakes the folder
	stop    chan struct{}
	folder  sync.WaitGroup
}

var (
	_ reprise.Store   = (*Store)(nil)
	_ reprise.Sweeper = (*Store)(nil)
	_ reprise.Sizer   = (*Store)(nil)

	_ reprise.CreateAppender = (*Store)(nil)
)

// Open opens or creates the file at path, readable for its owner only. opts may be nil. The error is ErrInUse,
// ErrNotOurs, ErrNewer, ErrReadOnly or ErrDamaged. Otherwise it wraps reprise.ErrInvalid if path is not a valid file,
// fs.ErrNotExist if the folder does not exist, and reprise.ErrUnavailable if a retry may help.
func Open(ctx context.Context, path string, opts *Options) (_ *Store, err error) {
	defer func() { err = openError(ctx, path, err) }()
	s := &Store{
		path: path, opts: opts.withDefaults(),
		foldNow: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	s.writer.init()
	s.folding.init()
	s.readers = make(chan *sqlite.Conn, s.opts.Readers)
	defer func() {
		if err != nil {
			_ = s.release()
		}
	}()
	if s.lock, err = lockFile(path+".lock", lock); err != nil {
		return nil, err
	}
	s.writer.space.open(path)
	s.opts.FoldBytes = cmp.Or(s.opts.FoldBytes, min(8<<20, int(s.writer.share)))
	if err := s.connect(); err != nil {
		return nil, err
	}
	s.cache.init(s)
	if err := s.recover(ctx); err != nil {
		return nil, err
	}
	if !s.writer.hold() {
		s.writer.giveBack(0)
	}
	s.folder.Go(s.foldLoop)
	return s, nil
}

func (s *Store) connect() error {
	info, err := os.Stat(s.path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return ErrNotOurs
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// SQLite would make the file readable for others, and would open a file without write permission read-only.
	if s.data, err = lockFile(s.path, lockData); err != nil {
		return err
	}
	fresh, err := probe(s.path)
	if err != nil {
		return err
	}
	conn, err := openWriter(s.path, fresh, s.opts.Sync, s.writer.share)
	if err != nil {
		return err
	}
	if err := s.enableVacuum(conn); err != nil {
		s.opts.Logger.Warn("the file gives no space back when streams are removed: it cannot be rewritten", "file",
			s.path, "error", err)
	}
	if err := s.addIndexes(conn); err != nil {
		s.opts.Logger.Warn("lists by labels are slow: the file has no index for them", "file", s.path, "error", err)
	}
	if err := s.writer.connect(conn, s.opts.MaxBytes); err != nil {
		return err
	}
	for range s.opts.Readers {
		conn, err := openReader(s.path)
		if err != nil {
			return err
		}
		s.readers <- conn
	}
	return nil
}

// Close folds the rest of the journal and closes the file. It waits for calls under way.
func (s *Store) Close() (err error) {
	defer func() { err = storeError(context.Background(), err) }()
	if !s.use.Close() {
		return nil
	}
	close(s.stop)
	s.folder.Wait()
	s.fold(context.Background()) // what cannot be folded, for example on a full disk, stays in the journal
	return s.release()
}

// release closes the connections, the writer's last. Only the last one can copy the write-ahead log into the file, so
// that a closed store is a single file.
func (s *Store) release() error {
	for {
		select {
		case conn := <-s.readers:
			_ = conn.Close()
			continue
		default:
		}
		break
	}
	err := s.writer.close()
	for _, f := range []*os.File{s.data, s.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
	return err
}

// read calls f with a connection for reading.
func (s *Store) read(ctx context.Context, f func(*sqlite.Conn) error) error {
	var conn *sqlite.Conn
	select {
	case conn = <-s.readers:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { s.readers <- conn }()
	defer interruptible(ctx, conn)()
	return storeError(ctx, f(conn))
}
