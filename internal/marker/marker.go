// Package marker compares the Wrappers around a Store with the marker in it, which names those with which the store was
// written. docs/internals/storage-wrappers.md has the format of the marker and the rules.
package marker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"reprise"
)

// Wrapper is a Store around another one whose data can only be read through it, and that describes itself. It is a
// reprise.Wrapper, too.
type Wrapper interface {
	reprise.Store
	// Mark describes the Wrapper. It contains no secret.
	Mark() Mark
}

// Mark describes a Wrapper.
type Mark struct {
	// Name is the name of the Wrapper, for example "encrypt".
	Name string `json:"name"`
	// Keys are the keys of the Wrapper, in any order.
	Keys []Key `json:"keys,omitempty"`
	// Later means that the Wrapper can read data that was stored before it was added, so that it can be put around all
	// others at any time. It is not stored.
	Later bool `json:"-"`
}

// Key identifies a key without revealing it.
type Key struct {
	ID string `json:"id"`
	// Check is a text that differs for other keys with the same ID.
	Check string `json:"check"`
}

// Error means that a store was opened without the Wrappers, or the keys, with which it was written. It wraps
// ErrInvalid. The store was not changed.
type Error struct {
	// Stored are the names of the Wrappers in the marker, outermost first; nil if there is no marker.
	Stored []string
	// Opened are the names of the Wrappers with which the store was to be opened.
	Opened []string
	// Why describes the problem and what to do.
	Why string
}

func (e *Error) Error() string { return "wrappers of the store: " + e.Why }

// Unwrap returns ErrInvalid.
func (e *Error) Unwrap() error { return reprise.ErrInvalid }

// parted is a Store whose streams are a part of those of another one, with its own marker.
type parted interface{ Part() string }

// Check compares the Wrappers around a Store with the marker in it. It returns an *Error if they differ, have another
// order, or have other keys. A program that uses a Store without a Log calls it first.
//
// A store without a marker gets one. If such a store already has streams, some of them are read first, and the store is
// refused if they cannot be read through it. A Store that cannot be written to is not changed.
func Check(ctx context.Context, store reprise.Store) error {
	_, err := checkAll(ctx, store, marksAlways)
	return err
}

// Open is Check for a reprise.Log, which is about to use store. It writes no marker into a store without Wrappers, and
// returns whether there is a marker. A Wrapper calls it in CheckMarker.
func Open(ctx context.Context, store reprise.Store) (marked bool, err error) {
	return checkAll(ctx, store, marksWrapped)
}

// Compare is Check without changes: a store without a marker is accepted and gets none. It is for a
// store into which a copy writes data that it cannot decode.
func Compare(ctx context.Context, store reprise.Store) error {
	_, err := checkAll(ctx, store, marksNever)
	return err
}

// marking says when a marker is written into a store without one.
type marking uint8

const (
	// marksNever writes no marker and does not read the streams.
	marksNever marking = iota
	// marksWrapped writes one if the store has wrappers. In any case it reads streams.
	marksWrapped
	marksAlways
)

// checkAll is Check. marked means that a list of the store contained the marker.
func checkAll(ctx context.Context, store reprise.Store, marks marking) (marked bool, err error) {
	for outermost := true; store != nil; outermost = false {
		c := wrapperCheck{view: store, home: store, marks: marks}
		if !outermost {
			c.marks = marksNever
		}
		store = c.descend()
		found, err := c.check(ctx)
		if err != nil {
			return false, err
		}
		marked = marked || outermost && found
	}
	return marked, nil
}

// wrapperCheck compares one marker with the wrappers around the store that contains it.
type wrapperCheck struct {
	view reprise.Store // with the wrappers
	home reprise.Store // contains the marker
	// given are the wrappers between the two, outermost first.
	given []Mark
	marks marking
}

// descend finds home and the wrappers around it. It returns the store that home is a part of, or nil.
func (c *wrapperCheck) descend() (whole reprise.Store) {
	for {
		if w, ok := c.home.(Wrapper); ok {
			c.given = append(c.given, w.Mark())
		}
		inner, ok := c.home.(interface{ Unwrap() reprise.Store })
		if !ok {
			return nil
		}
		if _, ok := c.home.(parted); ok {
			return inner.Unwrap()
		}
		c.home = inner.Unwrap()
	}
}

// check returns whether there is a marker in the end.
func (c *wrapperCheck) check(ctx context.Context) (marked bool, err error) {
	for {
		m, err := readMarker(ctx, c.home)
		if err != nil {
			return false, err
		}
		change := false
		if m.written() {
			change, err = c.compare(m.wrappers)
		} else if c.marks != marksNever {
			change, err = c.probe(ctx)
		}
		if err != nil {
			return false, err
		}
		if !change || !c.mayMark() {
			return m.created(), nil
		}
		switch err := m.write(ctx, c.home, c.given); {
		case err == nil:
			return true, nil
		case errors.Is(err, reprise.ErrConflict), errors.Is(err, reprise.ErrNotFound):
			continue // another process was faster
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case len(c.given) == 0, errors.Is(err, reprise.ErrInvalid): // an archive can only be read
			return m.created(), nil
		default:
			return false, fmt.Errorf("marker of the wrappers: %w", err)
		}
	}
}

func (c *wrapperCheck) mayMark() bool {
	return c.marks == marksAlways || c.marks == marksWrapped && len(c.given) > 0
}

// compare reports whether the marker is to be replaced by one with the given wrappers. The error says why they do not
// fit.
func (c *wrapperCheck) compare(stored []Mark) (change bool, err error) {
	given, extra := c.given, max(0, len(c.given)-len(stored))
	if !slices.ContainsFunc(given[:extra], func(m Mark) bool { return !m.Later }) {
		given = given[extra:]
	}
	if !slices.Equal(markNames(given), markNames(stored)) {
		const why = "it was written %s and is opened %s: open it as it was written, or copy it into another store"
		return false, c.refuse(stored, why, through(stored), through(c.given))
	}
	change = len(given) < len(c.given)
	for i := range stored {
		added, err := c.compareKeys(stored, given[i].Keys, stored[i].Keys)
		if err != nil {
			return false, err
		}
		change = change || added
	}
	return change, nil
}

// compareKeys reports whether a key was added.
func (c *wrapperCheck) compareKeys(all []Mark, given, stored []Key) (added bool, err error) {
	for _, key := range stored {
		i := slices.IndexFunc(given, func(k Key) bool { return k.ID == key.ID })
		switch {
		case i < 0:
			return false, c.refuse(all, "the key %q is missing: put it back behind the others, "+
				"or retire it with \"reprise store retire\" first", key.ID)
		case given[i].Check != key.Check:
			return false, c.refuse(all, "the key %q is another one than that with which the store was written: "+
				"put back the file of its keys", key.ID)
		}
	}
	return len(given) > len(stored), nil
}

func (c *wrapperCheck) refuse(stored []Mark, format string, args ...any) error {
	return &Error{Stored: markNames(stored), Opened: markNames(c.given), Why: fmt.Sprintf(format, args...)}
}

func markNames(marks []Mark) []string {
	names := make([]string, len(marks))
	for i, m := range marks {
		names[i] = m.Name
	}
	return names
}

// through returns the wrappers of a store in the form of the binary's URLs.
func through(marks []Mark) string {
	if len(marks) == 0 {
		return "without wrappers"
	}
	return "through " + strings.Join(markNames(marks), "+") + "+"
}

// Retire removes a key from the marker of the wrappers around store, so that the store opens without it. The caller
// must make sure that no data needs the key any more.
func Retire(ctx context.Context, store reprise.Store, id string) error {
	c := wrapperCheck{view: store, home: store}
	c.descend()
	for {
		m, err := readMarker(ctx, c.home)
		if err != nil {
			return err
		}
		for i := range m.wrappers {
			m.wrappers[i].Keys = slices.DeleteFunc(m.wrappers[i].Keys, func(k Key) bool { return k.ID == id })
		}
		if !m.written() {
			return nil
		}
		if err := m.write(ctx, c.home, m.wrappers); !errors.Is(err, reprise.ErrConflict) {
			return err
		}
	}
}

// streamKey names the stream that holds the marker of a store's wrappers; see reprise.StreamKey.IsMarker. Its newest
// event is valid. It has no end, so that it is never swept, and states a size of 0, so that no quota counts it.
var streamKey = reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "store:wrappers"}

const (
	markerType   = "wrappers"
	markerFormat = 1
)

// markerData is the data of an event of the marker, as JSON.
type markerData struct {
	Format int `json:"format"`
	// Wrappers lists the wrappers, outermost first.
	Wrappers []Mark `json:"wrappers"`
	// Start is the zero value in a store that no server has recorded a start in.
	Start Start `json:"start,omitzero"`
}

// marker is a marker as it was read.
type marker struct {
	epoch    reprise.Epoch // "" where there is no stream
	tail     uint64
	wrappers []Mark
	start    Start
}

func (m *marker) created() bool { return m.epoch != "" }

// written reports whether the stream of the marker exists and has an event.
func (m *marker) written() bool { return m.tail > 0 }

// readMarker reads the marker in home, below all wrappers.
func readMarker(ctx context.Context, home reprise.Store) (m marker, err error) {
	var after uint64 = 1 << 63
	for {
		page, err := home.Read(ctx, streamKey, after, 1<<20)
		switch {
		case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
			return marker{}, nil
		case err != nil:
			return marker{}, fmt.Errorf("marker of the wrappers: %w", err)
		}
		m.epoch, m.tail = page.Info.Epoch, page.Info.Tail
		if m.tail == 0 {
			return m, nil
		}
		if len(page.Batches) > 0 {
			data, err := decodeMarker(page.Batches[len(page.Batches)-1])
			m.wrappers, m.start = data.Wrappers, data.Start
			return m, err
		}
		after = m.tail - 1
	}
}

// decodeMarker reads the newest event of b.
func decodeMarker(b reprise.Batch) (data markerData, err error) {
	for e, err := range reprise.Records(b) {
		if err == nil {
			err = json.Unmarshal(e.Data, &data)
		}
		if err != nil {
			return data, fmt.Errorf("%w: the marker of the wrappers cannot be read: %v", reprise.ErrInvalid, err)
		}
	}
	if data.Format != markerFormat {
		return data, fmt.Errorf("%w: the marker of the wrappers has the format %d, written by a newer version",
			reprise.ErrInvalid, data.Format)
	}
	return data, nil
}

// write replaces the marker. The error wraps ErrConflict or ErrNotFound if another process has done so since it was
// read.
func (m *marker) write(ctx context.Context, home reprise.Store, wrappers []Mark) error {
	if wrappers == nil {
		wrappers = []Mark{}
	}
	text, err := json.Marshal(markerData{markerFormat, wrappers, m.start})
	if err != nil {
		return err
	}
	batch, err := reprise.AppendRecord(nil, &reprise.Event{Type: markerType, Format: reprise.FormatMembers, Data: text})
	if err != nil {
		return err
	}
	if !m.created() {
		created := time.UnixMilli(time.Now().UnixMilli()).UTC()
		info, err := home.Create(ctx, reprise.StreamInfo{Key: streamKey, Epoch: reprise.NewEpoch(), Created: created})
		if err != nil {
			return err
		}
		if info.Tail > 0 {
			return reprise.ErrConflict
		}
		m.epoch = info.Epoch
	}
	errs := home.Append(ctx, []reprise.AppendRequest{{
		Key: streamKey, Epoch: m.epoch, First: m.tail + 1, Count: 1, Bytes: batch, Earliest: m.tail + 1,
	}})
	return errors.Join(errs...)
}

// IsEmpty reports whether a store has no stream of any tenant except the marker of its wrappers. It asks store itself,
// which should be the innermost one.
func IsEmpty(ctx context.Context, store reprise.Store) (bool, error) {
	page, err := store.List(ctx, reprise.ListQuery{AllNamespaces: true, Limit: 2})
	for i := range page.Streams {
		if !page.Streams[i].Key.IsMarker() {
			return false, err
		}
	}
	return err == nil && page.Next == "", err
}

// probeStreams is the number of newest streams that are read in a store without a marker.
const probeStreams = 20

// probe reads streams of a store without a marker. It reports whether a marker can be written, that is, whether the
// data can be read with the given wrappers. The error says why it cannot.
func (c *wrapperCheck) probe(ctx context.Context) (sure bool, err error) {
	page, err := c.view.List(ctx, reprise.ListQuery{AllNamespaces: true, Limit: probeStreams})
	if err != nil {
		return false, c.unreadable(ctx, err)
	}
	read, failed := 0, error(nil)
	streams := 0
	for i := range page.Streams {
		key := page.Streams[i].Key
		if key.IsMarker() {
			continue
		}
		streams++
		some, err := c.view.Read(ctx, key, 0, 1)
		switch {
		case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
			streams--
		case err != nil && (errors.Is(err, reprise.ErrUnavailable) || ctx.Err() != nil):
			return false, err
		case err != nil: // damage of one stream does not affect the others
			failed = err
		case len(some.Batches) > 0:
			for _, err := range reprise.Records(some.Batches[0]) {
				if err != nil {
					return false, c.unreadable(ctx, fmt.Errorf("stream %s: %w", key, err))
				}
			}
			read++
		}
	}
	if failed != nil && read == 0 && len(c.given) > 0 {
		return false, c.unreadable(ctx, failed)
	}
	return read > 0 || streams == 0 || len(c.given) > 0, nil
}

// unreadable returns the refusal of a store in which err was found, or err itself if it may pass.
func (c *wrapperCheck) unreadable(ctx context.Context, err error) error {
	if errors.Is(err, reprise.ErrUnavailable) || errors.Is(err, reprise.ErrClosed) || ctx.Err() != nil {
		return err
	}
	const why = "what is stored cannot be read %s: open it with the wrappers and keys with which it was written (%v)"
	return &Error{Opened: markNames(c.given), Why: fmt.Sprintf(why, through(c.given), err)}
}
