package reprise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Wrapper is a Store around another one whose data can only be read through it, such as one that compresses or
// encrypts. The store contains a marker that describes its Wrappers; see CheckWrappers. A wrapping Store that does not
// change stored data need not be a Wrapper.
type Wrapper interface {
	Store
	// Unwrap returns the wrapped Store.
	Unwrap() Store
	// Mark describes the Wrapper. It contains no secret.
	Mark() WrapperMark
}

// WrapperMark describes a Wrapper.
type WrapperMark struct {
	// Name is the name of the Wrapper, for example "encrypt".
	Name string `json:"name"`
	// Keys are the keys of the Wrapper, in any order.
	Keys []KeyMark `json:"keys,omitempty"`
	// Later means that the Wrapper can read data that was stored before it was added, so that it can be put around all
	// others at any time. It is not stored.
	Later bool `json:"-"`
}

// KeyMark identifies a key without revealing it.
type KeyMark struct {
	ID string `json:"id"`
	// Check is a text that differs for other keys with the same ID.
	Check string `json:"check"`
}

// WrapperError means that a store was opened without the Wrappers, or the keys, with which it was written. It wraps
// ErrInvalid. The store was not changed.
type WrapperError struct {
	// Stored are the names of the Wrappers in the marker, outermost first; nil if there is no marker.
	Stored []string
	// Opened are the names of the Wrappers with which the store was to be opened.
	Opened []string
	// Why describes the problem and what to do.
	Why string
}

func (e *WrapperError) Error() string { return "wrappers of the store: " + e.Why }

// Unwrap returns ErrInvalid.
func (e *WrapperError) Unwrap() error { return ErrInvalid }

// parted is a Store whose streams are a part of those of another one, with its own marker.
type parted interface{ Part() string }

// CheckWrappers compares the Wrappers around a Store with the marker in it. It returns a *WrapperError if they differ,
// have another order, or have other keys. A program that uses a Store without a Log calls it first. Open does the same,
// but writes no marker into a store without Wrappers. docs/storage-wrappers.md has the format of the marker and the
// rules.
//
// A store without a marker gets one. If such a store already has streams, some of them are read first, and the store is
// refused if they cannot be read through it. A Store that cannot be written to is not changed.
func CheckWrappers(ctx context.Context, store Store) error {
	_, err := checkWrappers(ctx, store, marksAlways)
	return err
}

// CompareWrappers is CheckWrappers without changes: a store without a marker is accepted and gets none. It is for a
// store into which a copy writes data that it cannot decode.
func CompareWrappers(ctx context.Context, store Store) error {
	_, err := checkWrappers(ctx, store, marksNever)
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

// checkWrappers is CheckWrappers. marked means that a list of the store contained the marker.
func checkWrappers(ctx context.Context, store Store, marks marking) (marked bool, err error) {
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
	view Store // with the wrappers
	home Store // contains the marker
	// given are the wrappers between the two, outermost first.
	given []WrapperMark
	marks marking
}

// descend finds home and the wrappers around it. It returns the store that home is a part of, or nil.
func (c *wrapperCheck) descend() (whole Store) {
	for {
		if w, ok := c.home.(Wrapper); ok {
			c.given = append(c.given, w.Mark())
		}
		inner, ok := c.home.(interface{ Unwrap() Store })
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
		case errors.Is(err, ErrConflict), errors.Is(err, ErrNotFound):
			continue // another process was faster
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case len(c.given) == 0, errors.Is(err, ErrInvalid): // an archive can only be read
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
func (c *wrapperCheck) compare(stored []WrapperMark) (change bool, err error) {
	given, extra := c.given, max(0, len(c.given)-len(stored))
	if !slices.ContainsFunc(given[:extra], func(m WrapperMark) bool { return !m.Later }) {
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
func (c *wrapperCheck) compareKeys(all []WrapperMark, given, stored []KeyMark) (added bool, err error) {
	for _, key := range stored {
		i := slices.IndexFunc(given, func(k KeyMark) bool { return k.ID == key.ID })
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

func (c *wrapperCheck) refuse(stored []WrapperMark, format string, args ...any) error {
	return &WrapperError{Stored: markNames(stored), Opened: markNames(c.given), Why: fmt.Sprintf(format, args...)}
}

func markNames(marks []WrapperMark) []string {
	names := make([]string, len(marks))
	for i, m := range marks {
		names[i] = m.Name
	}
	return names
}

// through returns the wrappers of a store in the form of the binary's URLs.
func through(marks []WrapperMark) string {
	if len(marks) == 0 {
		return "without wrappers"
	}
	return "through " + strings.Join(markNames(marks), "+") + "+"
}

// RetireKey removes a key from the marker of the wrappers around store, so that the store opens without it. The caller
// must make sure that no data needs the key any more.
func RetireKey(ctx context.Context, store Store, id string) error {
	c := wrapperCheck{view: store, home: store}
	c.descend()
	for {
		m, err := readMarker(ctx, c.home)
		if err != nil {
			return err
		}
		for i := range m.wrappers {
			m.wrappers[i].Keys = slices.DeleteFunc(m.wrappers[i].Keys, func(k KeyMark) bool { return k.ID == id })
		}
		if !m.written() {
			return nil
		}
		if err := m.write(ctx, c.home, m.wrappers); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// markerKey names the stream that holds the marker of a store's wrappers. Its newest event is valid. It has no end, so
// that it is never swept, and states a size of 0, so that no quota counts it.
var markerKey = StreamKey{Tenant: SystemTenant, Name: "store:wrappers"}

// IsMarker reports whether k names the stream with the marker of a store's wrappers. It is not for users and is not
// copied from one store to another.
func (k StreamKey) IsMarker() bool { return k == markerKey }

const (
	markerType   = "wrappers"
	markerFormat = 1
)

// markerData is the data of an event of the marker, as JSON.
type markerData struct {
	Format int `json:"format"`
	// Wrappers lists the wrappers, outermost first.
	Wrappers []WrapperMark `json:"wrappers"`
}

// marker is a marker as it was read.
type marker struct {
	epoch    Epoch // "" where there is no stream
	tail     uint64
	wrappers []WrapperMark
}

func (m *marker) created() bool { return m.epoch != "" }

// written reports whether the stream of the marker exists and has an event.
func (m *marker) written() bool { return m.tail > 0 }

// readMarker reads the marker in home, below all wrappers.
func readMarker(ctx context.Context, home Store) (m marker, err error) {
	var after uint64 = 1 << 63
	for {
		page, err := home.Read(ctx, markerKey, after, 1<<20)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrExpired):
			return marker{}, nil
		case err != nil:
			return marker{}, fmt.Errorf("marker of the wrappers: %w", err)
		}
		m.epoch, m.tail = page.Info.Epoch, page.Info.Tail
		if m.tail == 0 {
			return m, nil
		}
		if len(page.Batches) > 0 {
			m.wrappers, err = decodeMarker(page.Batches[len(page.Batches)-1])
			return m, err
		}
		after = m.tail - 1
	}
}

// decodeMarker reads the newest event of b.
func decodeMarker(b Batch) ([]WrapperMark, error) {
	var data markerData
	for e, err := range Records(b) {
		if err == nil {
			err = json.Unmarshal(e.Data, &data)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the marker of the wrappers cannot be read: %v", ErrInvalid, err)
		}
	}
	if data.Format != markerFormat {
		return nil, fmt.Errorf("%w: the marker of the wrappers has the format %d, written by a newer version",
			ErrInvalid, data.Format)
	}
	return data.Wrappers, nil
}

// write replaces the marker. The error wraps ErrConflict or ErrNotFound if another process has done so since it was
// read.
func (m *marker) write(ctx context.Context, home Store, wrappers []WrapperMark) error {
	if wrappers == nil {
		wrappers = []WrapperMark{}
	}
	text, err := json.Marshal(markerData{markerFormat, wrappers})
	if err != nil {
		return err
	}
	batch, err := AppendRecord(nil, &Event{Type: markerType, Format: FormatMembers, Data: text})
	if err != nil {
		return err
	}
	if !m.created() {
		info, err := home.Create(ctx, StreamInfo{Key: markerKey, Epoch: NewEpoch(), Created: now()})
		if err != nil {
			return err
		}
		if info.Tail > 0 {
			return ErrConflict
		}
		m.epoch = info.Epoch
	}
	errs := home.Append(ctx, []AppendRequest{{
		Key: markerKey, Epoch: m.epoch, First: m.tail + 1, Count: 1, Bytes: batch, Earliest: m.tail + 1,
	}})
	return errors.Join(errs...)
}

// IsEmpty reports whether a store has no stream of any tenant except the marker of its wrappers. It asks store itself,
// which should be the innermost one.
func IsEmpty(ctx context.Context, store Store) (bool, error) {
	page, err := store.List(ctx, ListQuery{AllNamespaces: true, Limit: 2})
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
	page, err := c.view.List(ctx, ListQuery{AllNamespaces: true, Limit: probeStreams})
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
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrExpired):
			streams--
		case err != nil && (errors.Is(err, ErrUnavailable) || ctx.Err() != nil):
			return false, err
		case err != nil: // damage of one stream does not affect the others
			failed = err
		case len(some.Batches) > 0:
			for _, err := range Records(some.Batches[0]) {
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
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrClosed) || ctx.Err() != nil {
		return err
	}
	const why = "what is stored cannot be read %s: open it with the wrappers and keys with which it was written (%v)"
	return &WrapperError{Opened: markNames(c.given), Why: fmt.Sprintf(why, through(c.given), err)}
}

// usable is Validate for users of a Log, from whom the marker is hidden.
func (k StreamKey) usable() error {
	if k.IsMarker() {
		return fmt.Errorf("%w: %s is the marker of the store", ErrInvalid, k)
	}
	return k.Validate()
}
