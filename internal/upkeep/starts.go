package upkeep

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/durable"
	"reprise/internal/marker"
)

// Starts finds out that a store is older than what its readers have seen, because older files were put in its place.
// The store and a file beside it record the same name of a start, a number and a random text. The name changes
// when a server starts and stops, and within startsEvery of an append in between. A server that finds different names
// moves all streams that have not ended to another epoch, so that no cursor of a lost event is taken for another one.
//
// The store gets a new name first, together with the name in the file: a server that was killed in between finds that
// one.
type Starts struct {
	store  reprise.Store
	path   string
	logger *slog.Logger
	stop   func()
	used   atomic.Bool // since the last name

	mu    sync.Mutex
	names []string // in the file, one for each store that was used with it, the newest last
	name  string   // in the file, of this store; "" for none
	count uint64   // of starts
}

const (
	// startsEvery is the longest time between an append and a new name.
	startsEvery = time.Minute
	// mostNames bounds the number of stores in the file.
	mostNames = 64
)

// renewer is a Store that moves all streams that have not ended to another epoch.
type renewer interface {
	Renew(ctx context.Context) (streams int, err error)
}

// OpenStarts compares the names in store and in the file path, and records a new one. The caller has not used store
// yet. A store that several servers share detects losses by itself: OpenStarts returns nil for it, on which all methods
// do nothing.
func OpenStarts(ctx context.Context, store reprise.Store, path string, logger *slog.Logger) (*Starts, error) {
	inner, ok := Innermost(store).(renewer)
	if !ok {
		return nil, nil
	}
	s := &Starts{store: store, path: path, logger: logger}
	kept, err := s.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("starts of the store: %w", err)
	}
	for _, name := range []string{kept.Name, kept.Before} {
		if s.name == "" && slices.Contains(s.names, name) {
			s.name = name
		}
	}
	if s.name == "" && (kept.Name != "" || len(s.names) > 0) {
		streams, err := inner.Renew(ctx)
		if err != nil {
			return nil, fmt.Errorf("starts of the store: %w", err)
		}
		if streams > 0 {
			logger.Warn("the store is not as this data directory last saw it, as if older files were put back: "+
				"streams that have not ended go on in another epoch", "streams", streams, "start", kept.Name,
				"known", s.names)
		}
	}
	s.record(ctx)
	s.stop = s.recordUse()
	return s, nil
}

// RecordStart records a new name in store, which no server has used since its streams were moved to other epochs, and
// in the file path.
func RecordStart(ctx context.Context, store reprise.Store, path string) error {
	s := &Starts{store: store, path: path}
	_, err := s.read(ctx)
	if err == nil {
		err = s.advance(ctx)
	}
	if err != nil {
		return fmt.Errorf("starts of the store: %w", err)
	}
	return nil
}

// read reads the names in the file and in the store.
func (s *Starts) read(ctx context.Context) (kept marker.Start, err error) {
	text, err := os.ReadFile(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	s.names = strings.Fields(string(text))
	if kept, err = marker.ReadStart(ctx, s.store); err != nil {
		return kept, err
	}
	number, _, _ := strings.Cut(kept.Name, ".")
	s.count, _ = strconv.ParseUint(number, 10, 64)
	return kept, nil
}

// Used says that the store was written to.
func (s *Starts) Used() {
	if s != nil && !s.used.Load() {
		s.used.Store(true)
	}
}

// recordUse records a new name after appends, until stop is called.
func (s *Starts) recordUse() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(startsEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				if s.used.Load() {
					s.record(ctx)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// Close records a new name, before the store is closed.
func (s *Starts) Close() error {
	if s != nil {
		s.stop()
		s.record(context.Background())
	}
	return nil
}

// record records a new name. A failure, such as a full disk, leaves the names as they are: older files are then found
// if they are older than those.
func (s *Starts) record(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.Store(false)
	if err := s.advance(ctx); err != nil && ctx.Err() == nil {
		s.used.Store(true)
		s.logger.Warn("a start could not be recorded in the store and in the data directory", "error", err)
	}
}

func (s *Starts) advance(ctx context.Context) error {
	s.count++
	name := strconv.FormatUint(s.count, 10) + "." + rand.Text()
	if err := marker.WriteStart(ctx, s.store, marker.Start{Name: name, Before: s.name}); err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Clone(s.names), func(n string) bool { return n == s.name })
	names = append(names[max(0, len(names)+1-mostNames):], name)
	if err := durable.Write(s.path, []byte(strings.Join(names, "\n")+"\n")); err != nil {
		return err
	}
	s.names, s.name = names, name
	return nil
}

// CopyStart gives a store that was just made the start of the store from which all streams were copied. A server that
// uses the copy changes the name, so that from is found to be older if it is used again.
func CopyStart(ctx context.Context, from, to reprise.Store) error {
	there, err := marker.ReadStart(ctx, to)
	if err != nil || there.Name != "" {
		return err
	}
	start, err := marker.ReadStart(ctx, from)
	if err != nil || start.Name == "" {
		return err
	}
	return marker.WriteStart(ctx, to, start)
}
