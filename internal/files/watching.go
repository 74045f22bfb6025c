package files

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"reprise"
)

// watch is a directory that is being scanned.
type watch struct {
	of     *Watches
	id     string
	in     *root
	rel    string
	stream *reprise.Stream
	last   *saved
	seen   state // used only by run

	readers int       // guarded by of.mu, like the following fields
	busy    time.Time // when a reader last came or went
	removed bool
}

const (
	// maxAppended bounds the events of one append.
	maxAppended = 500
	// savedAtOnce is the number of entries up to which the state is saved after each change; larger ones are saved
	// every saveEvery.
	savedAtOnce = 5000
	saveEvery   = 5 * time.Second
	// slowness is the ratio of the pause after a scan to its duration.
	slowness = 10
)

// run scans the directory until no client reads or the Watches are closed.
func (o *watch) run() {
	ctx := o.of.done
	appender := o.stream.Appender(ctx, nil)
	var savedAt time.Time
	dirty := true // the time of the file records the last use of the watch
	for {
		begun := time.Now()
		found, err := o.in.look(ctx, o.rel, o.last.Recursive, o.of.opts.MaxEntries)
		events := diff(o.seen, found)
		switch {
		case err != nil && ctx.Err() == nil:
			o.fail(appender, err)
			return
		case err == nil && len(events) > 0:
			if err = o.append(appender, events); err == nil {
				o.seen, dirty = found, true
			}
		}
		if err != nil && ctx.Err() == nil { // the stream is gone
			o.stop()
			return
		}
		over := ctx.Err() != nil || o.isIdle()
		if dirty && (over || len(o.seen) <= savedAtOnce || time.Since(savedAt) > saveEvery) {
			o.save()
			savedAt, dirty = time.Now(), false
		}
		if over && o.leave() {
			return
		}
		select {
		case <-time.After(max(o.of.opts.Interval, slowness*time.Since(begun))):
		case <-ctx.Done():
		}
	}
}

// append appends all events. An error is final.
func (o *watch) append(appender *reprise.Appender, events []reprise.Event) error {
	for len(events) > 0 {
		n := min(len(events), maxAppended)
		if _, err := appender.Append(events[:n]...); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// fail ends the stream: later changes cannot be reported.
func (o *watch) fail(appender *reprise.Appender, cause error) {
	reason := "the directory cannot be read"
	if errors.Is(cause, errTooMany) {
		reason = "there are too many entries below the directory"
	}
	data, _ := json.Marshal(map[string]string{"error": reason})
	_, err := appender.End("failed", reprise.Event{Data: data, Format: reprise.FormatJSON})
	o.of.opts.Logger.Warn("a watch has ended", "path", string(o.last.Path), "error", errors.Join(cause, err))
	o.stop()
	_ = os.Remove(o.of.file(o.id)) // the next watch starts without it
}

// isIdle reports whether the watch had no reader for a while.
func (o *watch) isIdle() bool {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	return o.removed || o.readers == 0 && time.Since(o.busy) > o.of.opts.Linger
}

// leave ends the watch unless a reader has come meanwhile.
func (o *watch) leave() bool {
	if o.of.done.Err() == nil && !o.isIdle() {
		return false
	}
	o.stop()
	return true
}

func (o *watch) stop() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	if o.of.active[o.id] == o {
		delete(o.of.active, o.id)
	}
}

func (o *watch) save() {
	o.of.mu.Lock()
	removed := o.removed
	o.of.mu.Unlock()
	if removed {
		return
	}
	if err := o.of.save(o.id, o.last, o.seen); err != nil {
		o.of.opts.Logger.Warn("the state of a watch was not saved", "path", string(o.last.Path), "error", err)
	}
}

// saved is the state of a watch in its file.
type saved struct {
	Path      []byte
	Recursive bool
	Files     []savedFile
}

// savedFile is an entry with all bytes of its path.
type savedFile struct {
	Raw   []byte
	Inode [2]uint64
	File  File
}

const savedSuffix = ".json"

func (w *Watches) file(id string) string { return filepath.Join(w.dir, id+savedSuffix) }

// save writes the state to its file atomically.
func (w *Watches) save(id string, of *saved, seen state) error {
	s := saved{Path: of.Path, Recursive: of.Recursive}
	for raw, file := range seen {
		s.Files = append(s.Files, savedFile{[]byte(raw), file.inode, *file})
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	name := w.file(id)
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// load reads the saved state.
func (w *Watches) load(id string) (*saved, error) {
	text, err := os.ReadFile(w.file(id))
	if err != nil {
		return nil, err
	}
	s := new(saved)
	if err := json.Unmarshal(text, s); err != nil || len(s.Path) == 0 {
		return nil, fs.ErrNotExist // damaged: the watch starts without it
	}
	return s, nil
}

func (s *saved) state() state {
	found := state{}
	for i := range s.Files {
		file := s.Files[i].File
		file.raw, file.inode = string(s.Files[i].Raw), s.Files[i].Inode
		found[file.raw] = &file
	}
	s.Files = nil
	return found
}
