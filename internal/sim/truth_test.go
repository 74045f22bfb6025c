package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"reprise"
)

// truth records what the primary did, whatever the clients were told. It forgets nothing.
type truth struct {
	epochs map[reprise.Epoch]*epoch
	keys   map[reprise.StreamKey]*name
	places map[string][]place // by the id of the event
	// numbers holds the places of the first events of idempotent appends by stream, producer and number.
	numbers map[string][]place
}

// epoch is one epoch of a stream.
type epoch struct {
	number   int // for the trace, since the text is random
	key      reprise.StreamKey
	parent   *epoch
	fork     uint64
	events   map[uint64]string // those after fork
	tail     uint64
	earliest uint64
	windows  map[window]bool // every window it had
	ended    bool
	fence    uint64 // of the newest event
	acked    uint64 // the newest event acknowledged to a client
	changed  time.Time
}

// window is a range of kept events.
type window struct{ earliest, tail uint64 }

// moved records the window.
func (e *epoch) moved() { e.windows[window{e.earliest, e.tail}] = true }

// place is the position of an event.
type place struct {
	epoch *epoch
	seq   uint64
}

// name is the meaning of a stream's name.
type name struct {
	current *epoch // nil while there is no stream
	changes int    // how often its meaning changed
	ended   bool   // whether a stream of the name has ended
}

func newTruth() *truth {
	return &truth{
		epochs: map[reprise.Epoch]*epoch{}, keys: map[reprise.StreamKey]*name{},
		places: map[string][]place{}, numbers: map[string][]place{},
	}
}

func (tr *truth) name(key reprise.StreamKey) *name {
	n := tr.keys[key]
	if n == nil {
		n = &name{}
		tr.keys[key] = n
	}
	return n
}

// begin records an epoch of a new stream, or one that follows parent after a promotion.
func (tr *truth) begin(key reprise.StreamKey, id reprise.Epoch, parent *epoch, fork uint64) *epoch {
	e := &epoch{
		number: len(tr.epochs), key: key, parent: parent, fork: fork, tail: fork, earliest: 1,
		events: map[uint64]string{}, windows: map[window]bool{}, changed: time.Now(),
	}
	tr.epochs[id] = e
	return e
}

// at returns the event seq in the history of e, "" if there is none.
func (e *epoch) at(seq uint64) string {
	for e.parent != nil && seq <= e.fork {
		e = e.parent
	}
	return e.events[seq]
}

// sharedWith returns the seq up to which e and other have one history. ok is false if they are of different streams.
// Promotions may have lost other, which then is not among the ancestors of e.
func (e *epoch) sharedWith(other *epoch) (fork uint64, ok bool) {
	shared := uint64(math.MaxUint64)
	for o := other; o != nil; o = o.parent {
		if fork, ok = e.forkOf(o); ok {
			return min(fork, shared), true
		}
		shared = min(shared, o.fork)
	}
	return 0, false
}

// forkOf returns the seq up to which e has the history of other. ok is false if other is not among its ancestors.
func (e *epoch) forkOf(other *epoch) (fork uint64, ok bool) {
	fork = e.tail
	for a := e; a != nil; a = a.parent {
		if a == other {
			return fork, true
		}
		fork = min(fork, a.fork)
	}
	return 0, false
}

// stored records a batch that the primary has stored, and returns an error if it is wrong.
func (tr *truth) stored(req *reprise.AppendRequest, maxEvents int64) error {
	e := tr.epochs[req.Epoch]
	b := reprise.Batch{First: req.First, Count: req.Count, Bytes: req.Bytes}
	for event, err := range reprise.Records(b) {
		if err != nil {
			return fmt.Errorf("G6: a stored batch of %s: %w", req.Key, err)
		}
		text := string(event.Data)
		if err := tr.storedOnce(e, event.Seq, eventOf(text)); err != nil {
			return err
		}
		if e.ended {
			return fmt.Errorf("G4: event %d after the end of %s", event.Seq, req.Key)
		}
		if unused := time.Since(e.changed); strings.Contains(text, `"code":"idle"`) && unused < idleBound {
			return fmt.Errorf("G4: %s was ended as idle %v after event %d", req.Key, unused, event.Seq-1)
		}
		fence := eventOf(text).fence
		if fence < e.fence || fence > req.Owner.Fence {
			return fmt.Errorf(
				"event %d of %s by the owner with fence %d, after fence %d, in a batch of fence %d",
				event.Seq,
				req.Key,
				fence,
				e.fence,
				req.Owner.Fence,
			)
		}
		e.fence = fence
		e.ended = event.Type == reprise.TypeEnd
		e.tail = event.Seq
		e.events[event.Seq] = text
	}
	if e.ended != (req.End != nil) {
		return fmt.Errorf("G4: the end of %s in the batch is %t, in the request %t", req.Key, e.ended, req.End != nil)
	}
	e.earliest, e.changed = max(e.earliest, req.Earliest), time.Now()
	e.moved()
	if kept := e.tail + 1 - e.earliest; maxEvents > 0 && kept > uint64(maxEvents) {
		return fmt.Errorf("G7: %s keeps %d events, %d are allowed", req.Key, kept, maxEvents)
	}
	tr.name(req.Key).ended = tr.name(req.Key).ended || e.ended
	return nil
}

// storedOnce (G9) records the place of an event. It returns an error if the history already contains the event or
// another append of the same number.
func (tr *truth) storedOnce(e *epoch, seq uint64, what event) error {
	for _, p := range tr.places[what.id] {
		if e.has(p) {
			return fmt.Errorf("G9: %s is stored as event %d and as %d of %s", what.id, p.seq, seq, e.key)
		}
	}
	tr.places[what.id] = append(tr.places[what.id], place{e, seq})
	if what.producer == "-" || what.id != what.group {
		return nil
	}
	number := fmt.Sprint(e.key, what.producer, " ", what.epoch, " ", what.seq)
	for _, p := range tr.numbers[number] {
		if e.has(p) {
			return fmt.Errorf("G9: events %d and %d of %s have the number %s", p.seq, seq, e.key, number)
		}
	}
	tr.numbers[number] = append(tr.numbers[number], place{e, seq})
	return nil
}

// has reports whether p is in the history of e.
func (e *epoch) has(p place) bool {
	shared, ok := e.sharedWith(p.epoch)
	return ok && p.seq <= shared
}

// holds reports whether texts are consecutive from seq first in an epoch of key, which it returns.
func (tr *truth) holds(key reprise.StreamKey, first uint64, texts []string) *epoch {
	for _, p := range tr.places[eventOf(texts[0]).id] {
		if p.epoch.key != key || p.seq != first {
			continue
		}
		whole := true
		for i, text := range texts {
			whole = whole && p.epoch.at(first+uint64(i)) == text
		}
		if whole {
			return p.epoch
		}
	}
	return nil
}

// produced reports whether an epoch of key has an event of the producer's append, or, with first 0, of a later one.
func (tr *truth) produced(key reprise.StreamKey, first uint64, want event) bool {
	for _, e := range tr.epochs {
		if e.key != key {
			continue
		}
		for seq, text := range e.events {
			got := eventOf(text)
			if got.producer != want.producer || got.epoch != want.epoch {
				continue
			}
			if first == seq && got.seq == want.seq || first == 0 && got.seq >= want.seq {
				return true
			}
		}
	}
	return false
}

// event is the decoded data of an event.
type event struct {
	id, group  string // unique; group is the id of the first event of the append
	producer   string // "-" for none
	epoch, seq uint64
	fence      uint64
	padding    int
}

// text returns the data of the event, which eventOf decodes.
func (e event) text() string {
	return fmt.Sprintf(
		"%s %s %s %d %d %d %s",
		e.id,
		e.group,
		e.producer,
		e.epoch,
		e.seq,
		e.fence,
		strings.Repeat("x", e.padding),
	)
}

func eventOf(text string) (e event) {
	_, _ = fmt.Sscanf(text, "%s %s %s %d %d %d", &e.id, &e.group, &e.producer, &e.epoch, &e.seq, &e.fence)
	return e
}

// sortedKeys returns the names in a fixed order.
func (tr *truth) sortedKeys() []reprise.StreamKey {
	var keys []reprise.StreamKey
	for key := range tr.keys {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b reprise.StreamKey) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
