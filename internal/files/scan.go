package files

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"reprise"
	"reprise/client"
)

// The types of the events of a watch.
const (
	EventCreated  = "created"
	EventModified = "modified"
	EventRemoved  = "removed"
	EventMoved    = "moved"
)

// state holds the entries below a directory by path, with all its bytes.
type state map[string]*File

// errTooMany means that a directory has more entries than a watch covers.
var errTooMany = errors.New("too many files")

// scan returns the entries of a directory, with recursive all entries below it. A missing directory has none.
func (in *root) scan(ctx context.Context, rel string, recursive bool, most int) (state, error) {
	found := state{}
	add := func(file *File) error {
		if len(found) == most {
			return errTooMany
		}
		found[file.raw] = file
		return nil
	}
	if recursive {
		err := in.walk(ctx, rel, maxDepth, func(_ *root, _ string, file *File) error { return add(file) })
		return found, absentIsEmpty(err)
	}
	dir, names, err := in.names(rel)
	if err != nil {
		return found, absentIsEmpty(err)
	}
	defer dir.Close()
	for _, name := range names {
		info, err := dir.Lstat(name)
		if err != nil {
			continue // it is gone
		}
		file := newFileAt(dir, in.join(under(rel, name)), name, info)
		if err := add(&file); err != nil {
			return found, err
		}
	}
	return found, nil
}

// look is scan, repeated if something changed so recently that the next change would not show.
func (in *root) look(ctx context.Context, rel string, recursive bool, most int) (state, error) {
	found, err := in.scan(ctx, rel, recursive, most)
	if err != nil || !found.settle(time.Now()) {
		return found, err
	}
	select {
	case <-time.After(tick):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	begun := time.Now()
	found, err = in.scan(ctx, rel, recursive, most)
	found.settle(begun)
	return found, err
}

// settle marks the files that were changed less than a tick before now, and reports whether there are any.
func (s state) settle(now time.Time) (any bool) {
	for _, file := range s {
		if age := now.Sub(file.changed); file.Type == TypeFile && age < tick && age > -settling {
			file.unsettled, any = true, true
		}
	}
	return any
}

// absentIsEmpty returns nil for an error that means that the directory is gone or was replaced by something else.
func absentIsEmpty(err error) error {
	if _, noDirectory := errors.AsType[*FieldError](err); noDirectory ||
		errors.Is(mapped("", err), reprise.ErrNotFound) {
		return nil
	}
	return err
}

// sameAs reports whether other is f without a change.
func (f *File) sameAs(other *File) bool {
	return !f.unsettled && f.Type == other.Type && f.Mode == other.Mode && f.ETag == other.ETag &&
		f.Target == other.Target
}

// isMoved reports whether a new file is the missing one: the same file with the same bytes.
func (f *File) isMoved(to *File) bool {
	return f.Type == TypeFile && to.Type == TypeFile && f.inode == to.inode && f.inode != [2]uint64{} &&
		f.Size == to.Size && f.Modified.UnixMilli() == to.Modified.UnixMilli()
}

// diff returns the changes between two states as events: removed and moved entries first, then the others, each in the
// order of paths.
func diff(old, now state) []reprise.Event {
	var gone, fresh, changed []*File
	for p, file := range now {
		before := old[p]
		switch {
		case before == nil || before.Type != file.Type:
			fresh = append(fresh, file)
		case !before.sameAs(file):
			changed = append(changed, file)
		}
	}
	for p, file := range old {
		if after := now[p]; after == nil || after.Type != file.Type {
			gone = append(gone, file)
		}
	}
	byPath := func(a, b *File) int { return cmp.Compare(a.raw, b.raw) }
	slices.SortFunc(fresh, byPath)
	slices.SortFunc(changed, byPath)
	slices.SortFunc(gone, func(a, b *File) int { return byPath(b, a) }) // the entries of a directory precede it
	var events []reprise.Event
	for _, file := range gone {
		if i := slices.IndexFunc(fresh, file.isMoved); i >= 0 {
			events = append(events, event(EventMoved, &client.FileChange{File: fresh[i].File, From: file.Path}))
			fresh = slices.Delete(fresh, i, i+1)
			continue
		}
		events = append(events, event(EventRemoved, &client.FileChange{File: file.File}))
	}
	for _, file := range fresh {
		events = append(events, event(EventCreated, &client.FileChange{File: file.File}))
	}
	for _, file := range changed {
		events = append(events, event(EventModified, &client.FileChange{File: file.File}))
	}
	return events
}

func event(kind string, change *client.FileChange) reprise.Event {
	data, err := json.Marshal(change)
	if err != nil {
		panic(fmt.Sprintf("a change is strings and numbers: %v", err))
	}
	return reprise.Event{Type: kind, Data: data, Format: reprise.FormatJSON}
}
