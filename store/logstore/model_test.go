package logstore

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"reprise"
)

// model is what a store holds, told by somebody who knows nothing of segments.
type model struct {
	streams map[string]*modelStream
	epochs  int // that were given
}

// modelStream is a stream or, if until is set, a mark.
type modelStream struct {
	info    reprise.StreamInfo
	batches []reprise.Batch
	until   time.Time
}

// day is a time in the tests. It is in the future, so that no mark is past.
func day(n int) time.Time { return time.Date(2150, 1, n, 0, 0, 0, 5_000_000, time.UTC) }

func testKey(name string) reprise.StreamKey { return reprise.StreamKey{Tenant: "t", Name: name} }

func (m *model) clone() *model {
	c := &model{streams: map[string]*modelStream{}, epochs: m.epochs}
	for name, s := range m.streams {
		copied := *s
		copied.batches = slices.Clone(s.batches)
		copied.info.Producers = slices.Clone(s.info.Producers)
		c.streams[name] = &copied
	}
	return c
}

// print is a text that is the same for the same content.
func (m *model) print() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.streams)) {
		s := m.streams[name]
		printStream(&text, &s.info, s.until, s.batches)
	}
	return text.String()
}

func printStream(text *strings.Builder, info *reprise.StreamInfo, until time.Time, batches []reprise.Batch) {
	var room [512]byte
	line := append(room[:0], info.Key.Name...)
	if !until.IsZero() {
		line = strconv.AppendInt(append(line, " is a mark until "...), until.Unix(), 10)
		text.Write(append(line, '\n'))
		return
	}
	var state [512]byte
	line = appendWords(append(line, " from and to"...), info.Earliest, info.Tail, hash(appendInfo(state[:0], info)))
	for _, b := range batches {
		if b.Last() >= info.Earliest {
			line = appendWords(append(line, "\n  batch"...), b.First, uint64(b.Count), hash(b.Bytes))
		}
	}
	text.Write(append(line, '\n'))
}

func appendWords(line []byte, words ...uint64) []byte {
	for _, w := range words {
		line = strconv.AppendUint(append(line, ' '), w, 36)
	}
	return line
}

func hash(b []byte) uint64 { return maphash.Bytes(hashSeed, b) }

var hashSeed = maphash.MakeSeed()

// printStore is model.print of what a store holds. All batches are read from the disk.
func printStore(s *Store) (string, error) {
	var text strings.Builder
	byName := func(a, b *stream) int { return strings.Compare(a.key().Name, b.key().Name) }
	for _, st := range slices.SortedFunc(s.streams.all(s.tenants), byName) {
		key := st.key()
		if st.mark {
			printStream(&text, &reprise.StreamInfo{Key: key}, st.due(), nil)
			continue
		}
		v, err := s.view(key, 0, 1<<30)
		if err != nil {
			return "", err
		}
		batches, err := v.read()
		v.release(s)
		if err != nil {
			return "", err
		}
		printStream(&text, &v.info, time.Time{}, batches)
	}
	return text.String(), nil
}

// step is a call, what it makes of the model, and how it is made.
type step struct {
	name  string
	after *model
	call  func(*Store) error
}

// names are the names of the streams of a run.
var names = []string{"a", "b", "c", "d", "e"}

// next is a random step from m on.
func (m *model) next(rnd *rand.Rand) step {
	name := names[rnd.IntN(len(names))]
	after := m.clone()
	s := after.streams[name]
	if s == nil || !s.until.IsZero() {
		return after.create(name, rnd)
	}
	switch n := rnd.IntN(20); {
	case n < 13:
		return after.append(rnd)
	case n < 15:
		return after.trim(s, rnd)
	case n < 17:
		return after.remove(name, rnd)
	default:
		return after.sweep()
	}
}

func (m *model) create(name string, rnd *rand.Rand) step {
	m.epochs++
	info := reprise.StreamInfo{
		Key: testKey(name), Epoch: reprise.Epoch(fmt.Sprint("epoch", m.epochs)), Created: day(1),
		Config: reprise.StreamConfig{Labels: map[string]string{"k": name}, Meta: make([]byte, rnd.IntN(40))},
	}
	if rnd.IntN(4) == 0 {
		info.Owner = reprise.Owner{Name: "first", Fence: 1}
		info.Tail = 7
		info.Lineage = []reprise.Ancestor{{Epoch: "before", Fork: 5}}
	}
	kept := info
	kept.Earliest = info.Tail + 1
	m.streams[name] = &modelStream{info: kept}
	return step{"create " + name, m, func(s *Store) error {
		_, err := s.Create(bg, info)
		return err
	}}
}

// append appends to one to three streams at once.
func (m *model) append(rnd *rand.Rand) step {
	var reqs []reprise.AppendRequest
	for _, i := range rnd.Perm(len(names))[:1+rnd.IntN(3)] {
		s := m.streams[names[i]]
		if s == nil || !s.until.IsZero() || s.info.End != nil {
			continue
		}
		req := reprise.AppendRequest{
			Key: s.info.Key, Epoch: s.info.Epoch, Owner: s.info.Owner, First: s.info.Tail + 1, Count: 1 + rnd.IntN(3),
			Bytes: make([]byte, 1+rnd.IntN(400)), Earliest: s.info.Earliest, Kept: s.info.Bytes + 10,
		}
		fill(req.Bytes, rnd)
		switch rnd.IntN(8) {
		case 0:
			req.End = &reprise.End{Outcome: "done", Time: day(2), Expires: day(3), Data: []byte("d")}
		case 1:
			req.Owner = reprise.Owner{Name: "next", Fence: s.info.Owner.Fence + 1}
		case 2, 3:
			id := fmt.Sprint("p", rnd.IntN(3))
			req.Producers = []reprise.Producer{{ID: id, Seq: req.First, First: req.First, Last: req.First}}
		case 4:
			req.Earliest = req.First - rnd.Uint64N(req.First-s.info.Earliest+1)
		}
		s.append(&req)
		reqs = append(reqs, req)
	}
	return step{fmt.Sprintf("append to %d", len(reqs)), m, func(s *Store) error {
		for _, err := range s.Append(bg, reqs) {
			if err != nil {
				return err
			}
		}
		return nil
	}}
}

// fill puts noise into b, with zeros in it, which a torn sector has too.
func fill(b []byte, rnd *rand.Rand) {
	for i := range b {
		b[i] = byte(max(0, rnd.IntN(300)-44))
	}
}

func (s *modelStream) append(req *reprise.AppendRequest) {
	s.batches = append(s.batches, reprise.Batch{First: req.First, Count: req.Count, Bytes: req.Bytes})
	s.info.Tail += uint64(req.Count)
	s.info.Earliest, s.info.Bytes = req.Earliest, req.Kept
	s.info.Owner = req.Owner
	if req.End != nil {
		s.info.End = req.End
	}
	for _, p := range req.Producers {
		s.info.Producers = slices.DeleteFunc(s.info.Producers, func(k reprise.Producer) bool { return k.ID == p.ID })
		s.info.Producers = append(s.info.Producers, p)
	}
}

func (m *model) trim(s *modelStream, rnd *rand.Rand) step {
	before := s.info.Earliest + rnd.Uint64N(s.info.Tail+2-s.info.Earliest)
	spec := reprise.RemoveSpec{Trim: before, Kept: s.info.Bytes / 2}
	if spec.Trim > s.info.Earliest {
		s.info.Earliest, s.info.Bytes = spec.Trim, spec.Kept
	}
	key := s.info.Key
	return step{fmt.Sprint("trim ", key.Name), m, func(st *Store) error { return st.Remove(bg, key, spec) }}
}

func (m *model) remove(name string, rnd *rand.Rand) step {
	spec := reprise.RemoveSpec{}
	if rnd.IntN(2) == 0 {
		spec.Remember = day(20)
		m.streams[name] = &modelStream{info: reprise.StreamInfo{Key: testKey(name)}, until: spec.Remember}
	} else {
		delete(m.streams, name)
	}
	return step{"remove " + name, m, func(s *Store) error { return s.Remove(bg, testKey(name), spec) }}
}

func (m *model) sweep() step {
	for name, s := range m.streams {
		if s.until.IsZero() && s.info.End != nil {
			m.streams[name] = &modelStream{info: reprise.StreamInfo{Key: testKey(name)}, until: day(20)}
		}
	}
	return step{"sweep", m, func(s *Store) error {
		_, err := s.Sweep(bg, day(10), day(20), 100)
		return err
	}}
}
