package reprise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Wrapper is a Store around another one without which nothing can be done with what was stored through it, such as
// one that compresses or encrypts. What it is lies in the store as a marker; see CheckWrappers. A Store around a Store
// that changes nothing at rest need not be a Wrapper.
type Wrapper interface {
	Store
	// Unwrap returns the Store inside.
	Unwrap() Store
	// Mark describes the Wrapper. It holds no secret.
	Mark() WrapperMark
}

// WrapperMark describes a Wrapper.
type WrapperMark struct {
	// Name is what the Wrapper is called, for example "encrypt".
	Name string `json:"name"`
	// Keys are those that it has, in any order.
	Keys []KeyMark `json:"keys,omitempty"`
	// Later says that the Wrapper reads what was stored before it was there, so that it can be put around
	// all others at any time. It is not stored.
	Later bool `json:"-"`
}

// KeyMark tells one key from another without telling the key.
type KeyMark struct {
	ID string `json:"id"`
	// Check is a text that another key of that ID does not have.
	Check string `json:"check"`
}

// WrapperError refuses a store that is opened without the Wrappers, or the keys, with which it was
// written. It wraps ErrInvalid. Nothing was changed in the store.
type WrapperError struct {
	// Stored are the names of the Wrappers by the marker, the outermost first; nil where there is no marker.
	Stored []string
	// Opened are those with which the store was to be opened.
	Opened []string
	// Why says what is wrong and what to do.
	Why string
}

func (e *WrapperError) Error() string { return "wrappers of the store: " + e.Why }

// Unwrap returns ErrInvalid.
func (e *WrapperError) Unwrap() error { return ErrInvalid }

// parted is a Store whose streams are a part of those of another one, with a marker of its own.
type parted interface{ Part() string }

// CheckWrappers compares the Wrappers around a Store with the marker that lies in it, and returns a *WrapperError where
// they are others, in another order, or have other keys. Whoever uses a Store without a Log calls it first. Open does
// the same, but writes no marker into a store without Wrappers. docs/storage-wrappers.md has the format of the marker
// and the rules.
//
// A store without a marker gets one. Where such a store has streams already, some of them are read first, and what
// cannot be read through store is refused. A Store that cannot be written to is left as it is.
func CheckWrappers(ctx context.Context, store Store) error {
	_, err := checkWrappers(ctx, store, marksAlways)
	return err
}

// CompareWrappers is CheckWrappers for a store that is left as it is: one without a marker is not refused and gets
// none. It is for a store into which a copy puts what it does not understand.
func CompareWrappers(ctx context.Context, store Store) error {
	_, err := checkWrappers(ctx, store, marksNever)
	return err
}

// marking says when a marker is written into a store that has none.
type marking uint8

const (
	// marksNever leaves the store as it is, and does not read its streams.
	marksNever marking = iota
	// marksWrapped writes one for a store in wrappers. Of others the streams are read all the same.
	marksWrapped
	marksAlways
)

// checkWrappers is CheckWrappers. marked says that a list of store holds the marker.
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

// wrapperCheck compares one marker with the wrappers around the store in which it lies.
type wrapperCheck struct {
	view Store // with the wrappers
	home Store // where the marker lies
	// given are the wrappers between the two, the outermost first.
	given []WrapperMark
	marks marking
}

// descend finds home and what is around it. It returns the store that home is a part of, or nil.
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
			continue // somebody else was faster
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

// compare reports whether the marker is to be replaced by one with what is given. The error is why they do not fit.
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

// through says in which wrappers a store is, as URLs of the binary have them.
func through(marks []WrapperMark) string {
	if len(marks) == 0 {
		return "without wrappers"
	}
	return "through " + strings.Join(markNames(marks), "+") + "+"
}

// RetireKey takes a key out of the marker of the wrappers around store, so that the store opens without it. That
// nothing needs the key any more is for the caller to make sure of.
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

// markerKey is the stream that holds the marker of a store's wrappers. Its newest event counts. It has no end, so
// that no sweep takes it, and says that it keeps no bytes, so that no quota counts it.
var markerKey = StreamKey{Tenant: SystemTenant, Name: "store:wrappers"}

// IsMarker reports whether k is the stream in which a store keeps the marker of its wrappers. It is not for users, and
// not copied from one store to another.
func (k StreamKey) IsMarker() bool { return k == markerKey }

const (
	markerType   = "wrappers"
	markerFormat = 1
)

// markerData is the data of an event of the marker, as JSON.
type markerData struct {
	Format int `json:"format"`
	// Wrappers are from the outermost to the innermost.
	Wrappers []WrapperMark `json:"wrappers"`
}

// marker is the marker as it was read.
type marker struct {
	epoch    Epoch // "" where there is no stream
	tail     uint64
	wrappers []WrapperMark
}

func (m *marker) created() bool { return m.epoch != "" }

// written is false for a stream whose first event is yet to come, and for none.
func (m *marker) written() bool { return m.tail > 0 }

// readMarker reads the marker in home, where no wrapper is around.
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

// write replaces the marker. The error wraps ErrConflict or ErrNotFound if somebody else has done so since it was read.
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

// IsEmpty reports whether a store has no stream, whoever's, but the marker of its wrappers. It asks store itself, which
// is best the innermost one.
func IsEmpty(ctx context.Context, store Store) (bool, error) {
	page, err := store.List(ctx, ListQuery{AllNamespaces: true, Limit: 2})
	for i := range page.Streams {
		if !page.Streams[i].Key.IsMarker() {
			return false, err
		}
	}
	return err == nil && page.Next == "", err
}

// probeStreams is of how many streams, the newest ones, a store without a marker is read.
const probeStreams = 20

// probe reads streams of a store that has no marker. It reports whether one can be written: that what is there can be
// read with the wrappers that are given. The error is why it cannot.
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
		case err != nil: // damage of the store itself keeps no other stream back
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

// unreadable refuses a store in which err was found, unless err may pass.
func (c *wrapperCheck) unreadable(ctx context.Context, err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrClosed) || ctx.Err() != nil {
		return err
	}
	const why = "what is stored cannot be read %s: open it with the wrappers and keys with which it was written (%v)"
	return &WrapperError{Opened: markNames(c.given), Why: fmt.Sprintf(why, through(c.given), err)}
}

// usable is Validate for whoever uses a Log, to whom the marker does not exist.
func (k StreamKey) usable() error {
	if k.IsMarker() {
		return fmt.Errorf("%w: %s is the marker of the store", ErrInvalid, k)
	}
	return k.Validate()
}
