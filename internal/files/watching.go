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

// watch is a directory that is looked at.
type watch struct {
	of     *Watches
	id     string
	in     *root
	rel    string
	stream *reprise.Stream
	last   *saved
	seen   state // by the goroutine of run alone

	readers int       // guarded by of.mu, as what follows
	busy    time.Time // when the last reader came or went
	removed bool
}

const (
	// maxAppended bounds the events of one append.
	maxAppended = 500
	// savedAtOnce is up to how many entries the state is saved after each change; larger ones every saveEvery.
	savedAtOnce = 5000
	saveEvery   = 5 * time.Second
	// slowness is how many times as long as a look takes passes until the next one.
	slowness = 10
)

// run looks at the directory again and again, until nobody reads or the Watches are closed.
func (o *watch) run() {
	ctx := o.of.done
	appender := o.stream.Appender(ctx, nil)
	var savedAt time.Time
	dirty := true // the time of the file says when the watch was last of use
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

// append appends all events, or fails for good.
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

// fail ends the stream: what happens from now on cannot be told.
func (o *watch) fail(appender *reprise.Appender, cause error) {
	reason := "the directory cannot be read"
	if errors.Is(cause, errTooMany) {
		reason = "there are too many entries below the directory"
	}
	data, _ := json.Marshal(map[string]string{"error": reason})
	_, err := appender.End("failed", reprise.Event{Data: data, Format: reprise.FormatJSON})
	o.of.opts.Logger.Warn("a watch has ended", "path", string(o.last.Path), "error", errors.Join(cause, err))
	o.stop()
	_ = os.Remove(o.of.file(o.id)) // the next one begins anew
}

// isIdle reports whether nobody has read for a while.
func (o *watch) isIdle() bool {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	return o.removed || o.readers == 0 && time.Since(o.busy) > o.of.opts.Linger
}

// leave ends the watch unless somebody has come to read meanwhile.
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
		o.of.opts.Logger.Warn("what was seen of a directory was not saved", "path", string(o.last.Path), "error", err)
	}
}

// saved is what is kept of a watch in a file.
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

// save writes what was seen so that it is there whole or not at all.
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

// load reads what was seen last.
func (w *Watches) load(id string) (*saved, error) {
	text, err := os.ReadFile(w.file(id))
	if err != nil {
		return nil, err
	}
	s := new(saved)
	if err := json.Unmarshal(text, s); err != nil || len(s.Path) == 0 {
		return nil, fs.ErrNotExist // damaged: it is begun anew
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
