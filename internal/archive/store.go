package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"reprise"
)

// errReadOnly is what everything that would change an archived stream returns.
var errReadOnly = fmt.Errorf("%w: an archive can only be read", reprise.ErrInvalid)

// Store reads the streams of a Place as a reprise.Store, and takes streams as a Sink. Of a
// name that was archived in several lives it shows the newest one.
//
// Create, Append and Remove refuse with an error that wraps reprise.ErrInvalid. Read looks for the
// file by its name, and the place in it by its index; the last few files stay open. Times of expiry
// have no effect. Where a Place has lost what it held, or holds something else, the error wraps ErrDamaged.
//
// A Store is safe for concurrent use.
type Store struct {
	place   Place
	decoder *zstd.Decoder
	files   openFiles
	listing listing

	use    sync.RWMutex // held for reading by calls under way
	closed bool
}

// Open returns a Store of the files in place, and takes ownership of place. It does no I/O.
func Open(place Place) (*Store, error) {
	decoder, err := newDecoder()
	if err != nil {
		return nil, err
	}
	return &Store{place: place, decoder: decoder}, nil
}

// enter begins a call. If the error is nil, the caller calls s.use.RUnlock.
func (s *Store) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.use.RLock()
	if s.closed {
		s.use.RUnlock()
		return reprise.ErrClosed
	}
	return nil
}

// Put archives one life of a stream; see Sink. It replaces an existing archive of that life.
func (s *Store) Put(ctx context.Context, info reprise.StreamInfo, batches iter.Seq2[reprise.Batch, error]) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.use.RUnlock()
	if err := info.Key.Validate(); err != nil {
		return err
	}
	l := lifeOf(&info)
	if back, ok := parseLife(l.file()); !ok || back != l {
		return fmt.Errorf("%w: epoch %q", reprise.ErrInvalid, info.Epoch)
	}
	return s.place.Create(ctx, l.file(), func(w io.Writer) error { return Write(w, info, batches) })
}

// Has reports whether a life of a stream is archived; see Sink. The file must be whole as far as
// header and index tell.
func (s *Store) Has(ctx context.Context, info reprise.StreamInfo) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.use.RUnlock()
	f, err := s.openLife(ctx, lifeOf(&info))
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, ErrDamaged) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// What was archived before events were trimmed holds more than what is there now.
	return f.info.Tail == info.Tail, f.close()
}

// newest finds the newest life of a stream.
func (s *Store) newest(ctx context.Context, key reprise.StreamKey) (newest life, err error) {
	for name, err := range s.place.List(ctx, folderOf(key)+"@") {
		if err != nil {
			return newest, err
		}
		if l, ok := parseLife(name); ok && l.key == key && (newest.epoch == "" || l.newer(newest)) {
			newest = l
		}
	}
	if newest.epoch == "" {
		err = reprise.ErrNotFound
	}
	return newest, err
}

// openedFile is the file of a life.
type openedFile struct {
	*File
	life   life
	placed PlacedFile
	found  time.Time
}

func (f *openedFile) close() error { return f.placed.Close() }

// openLife opens the file of a life and makes sure that it is that one.
func (s *Store) openLife(ctx context.Context, l life) (*openedFile, error) {
	placed, err := s.place.Open(ctx, l.file())
	if err != nil {
		return nil, err
	}
	f, err := openFile(placed, placed.Size(), s.decoder)
	if err == nil && lifeOf(&f.info) != l {
		err = fmt.Errorf("%w: it holds the stream %s of epoch %s", ErrDamaged, f.info.Key, f.info.Epoch)
	}
	if err != nil {
		_ = placed.Close()
		return nil, fmt.Errorf("%s: %w", l.file(), err)
	}
	return &openedFile{f, l, placed, time.Now()}, nil
}

// Read returns a page; see reprise.Store. The error wraps ErrDamaged if the file is damaged.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if err := s.enter(ctx); err != nil {
		return reprise.Page{}, err
	}
	defer s.use.RUnlock()
	if key.Validate() != nil {
		return reprise.Page{}, reprise.ErrNotFound
	}
	f := s.files.take(key)
	if f == nil {
		l, err := s.newest(ctx, key)
		if err != nil {
			return reprise.Page{}, err
		}
		// The file stays open for other calls, which this one's context must not end.
		if f, err = s.openLife(context.WithoutCancel(ctx), l); err != nil {
			return reprise.Page{}, err
		}
	}
	defer s.files.give(f)
	page, err := f.Read(after, maxBytes)
	if err != nil {
		return reprise.Page{}, fmt.Errorf("%s: %w", f.life.file(), err)
	}
	return page, nil
}

// Create refuses.
func (s *Store) Create(ctx context.Context, _ reprise.StreamInfo) (reprise.StreamInfo, error) {
	if err := s.enter(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	defer s.use.RUnlock()
	return reprise.StreamInfo{}, errReadOnly
}

// Append refuses.
func (s *Store) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	err := s.enter(ctx)
	if err == nil {
		s.use.RUnlock()
		err = errReadOnly
	}
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// Remove refuses.
func (s *Store) Remove(ctx context.Context, _ reprise.StreamKey, _ reprise.RemoveSpec) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.use.RUnlock()
	return errReadOnly
}

// Close closes the files that are open and the Place. It waits for calls under way.
func (s *Store) Close() error {
	s.use.Lock()
	defer s.use.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.decoder.Close()
	return errors.Join(s.files.closeAll(), s.place.Close())
}
