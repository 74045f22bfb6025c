package natsstore

import (
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"reprise"
)

func exampleStates() []*state {
	at := time.UnixMilli(1_700_000_000_123).UTC()
	return []*state{
		{gone: true},
		{gone: true, remember: at.UnixMilli()},
		{epoch: "E", renewed: true, created: -1, index: 7, earliest: 1, skips: []skip{}},
		{
			epoch: "0123456789ABCDEF", created: at.UnixMilli(), index: 1 << 40, earliest: 5, tail: 1 << 50,
			kept:  1 << 33,
			owner: reprise.Owner{Name: "replica-k3v9", Fence: 3}, bulky: true,
			end:       &reprise.End{Outcome: "completed", Time: at, Expires: at.Add(time.Hour), Data: []byte("data")},
			producers: []reprise.Producer{{ID: "p", Epoch: 1, Seq: 2, First: 3, Last: 4}, {ID: "q"}},
			lineage:   []reprise.Ancestor{{Epoch: "A", Fork: 1 << 40}, {Epoch: "B"}},
			first:     99, count: 100, sum: 1<<32 - 1, parts: []part{{seq: 8, len: 1 << 20}, {seq: 9, len: 1}},
			batches: 12, skips: []skip{{seq: 10, first: 9}, {seq: 4, first: 2}},
		},
		{epoch: "E", end: &reprise.End{Time: at, Expires: at}, data: []part{{seq: 3, len: 4}}, skips: []skip{}},
	}
}

func TestStatesAreReadAsWritten(t *testing.T) {
	for i, want := range exampleStates() {
		got, err := decodeState(want.encode(writerID{1, 2, 3}))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("state %d:\n%+v, want\n%+v", i, got, want)
		}
	}
}

// TestStateWithoutLineageIsOfFirstVersion: programs of the version before read the states of streams that have lost
// nothing, and refuse the others as newer.
func TestStateWithoutLineageIsOfFirstVersion(t *testing.T) {
	version := func(s *state) byte {
		b, err := base64.RawStdEncoding.DecodeString(s.encode(writerID{}))
		if err != nil {
			t.Fatal(err)
		}
		return b[len(writerID{})]
	}
	if got := version(&state{epoch: "E"}); got != 1 {
		t.Errorf("without a lineage: version %d, want 1", got)
	}
	if got := version(&state{epoch: "E", lineage: []reprise.Ancestor{{Epoch: "A"}}}); got != 2 {
		t.Errorf("with a lineage: version %d, want 2", got)
	}
	const first = "AQIDAAAAAUIBRfahq/75YgcBBBABbwIBAQIBAwIAAAAFxUnFfA" // what the first version has written
	s, err := decodeState(first)
	if err != nil || s.epoch != "E" || s.tail != 4 || s.first != 3 || s.count != 2 || s.lineage != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestRecordsAreReadAsWritten(t *testing.T) {
	want := &record{epoch: "E", config: reprise.StreamConfig{
		Retention: reprise.Retention{MaxEvents: 1, MaxBytes: 2, MaxAge: 3},
		Labels:    map[string]string{"a": "b", "": ""},
		Meta:      []byte{0, 1},
	}}
	got, err := decodeRecord(want.key, want.encode())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	e := &ending{key: reprise.StreamKey{Tenant: "t", Name: "n"}, epoch: "E", expires: -5}
	back, err := decodeEnding(e.encode())
	if err != nil || *back != *e {
		t.Errorf("%+v, %v, want %+v", back, err, e)
	}
}

// A flipped bit is found, and the version of another program too.
func TestDamagedStatesAreRefused(t *testing.T) {
	text := exampleStates()[3].encode(writerID{})
	for i := range text {
		b := []byte(text)
		b[i] ^= 1 << (i % 5)
		if _, err := decodeState(string(b)); err == nil && string(b) != text {
			// The last character has bits that stand for nothing.
			if i < len(text)-1 {
				t.Errorf("a bit of character %d is flipped and nobody sees it", i)
			}
		}
	}
}

func FuzzDecodeState(f *testing.F) {
	for _, s := range exampleStates() {
		f.Add(s.encode(writerID{}))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := decodeState(text)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, errNewer) {
				t.Fatal(err)
			}
			return
		}
		again, err := decodeState(s.encode(writerID{}))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := again.encode(writerID{}), s.encode(writerID{}); got != want {
			t.Errorf("%s is read as another state than %s", got, want)
		}
	})
}

// TestSkipsAreFewAndLeadEverywhere follows skips in a history of messages, some of which are no batches.
func TestSkipsAreFewAndLeadEverywhere(t *testing.T) {
	const batches = 20_000
	rnd := rand.New(rand.NewPCG(1, 2))
	messages := map[uint64]*entry{}
	last := &entry{state: &state{earliest: 1}, seq: 1}
	firsts := []uint64{}
	for len(firsts) < batches {
		next := &state{earliest: last.earliest, tail: last.tail}
		if len(firsts) > batches/2 { // then the window moves
			next.earliest = firsts[len(firsts)-batches/2]
		}
		next.batches, next.skips = last.follow(next.earliest)
		if rnd.IntN(5) > 0 {
			next.first, next.count = last.tail+1, 1+rnd.IntN(9)
			next.tail = last.tail + uint64(next.count)
			firsts = append(firsts, next.first)
		}
		last = &entry{state: next, seq: last.seq + 1 + uint64(rnd.IntN(100))}
		messages[last.seq] = last
	}
	if n := len(last.skips); n > 9 {
		t.Errorf("%d skips after %d batches", n, batches)
	}
	for range 5000 {
		want := last.earliest + rnd.Uint64N(last.tail-last.earliest)
		if last.count > 0 && want >= last.first {
			continue
		}
		e := last
		for steps := 1; ; steps++ {
			p, found := e.toward(want)
			if found {
				if b := messages[p.seq]; b.first != p.first || b.first > want || b.tail < want {
					t.Fatalf("event %d: found the batch of %d to %d", want, b.first, b.tail)
				}
				break
			}
			if e = messages[p.seq]; e == nil || steps > 40 {
				t.Fatalf("event %d is not found in %d steps", want, steps)
			}
		}
	}
}

func TestSubjectsAreReversible(t *testing.T) {
	s := subjects{"N"}
	for _, key := range []reprise.StreamKey{
		{Tenant: "a.b", Name: "x:y.z/w"}, {Tenant: ".", Name: ":a"}, {Tenant: "t", Name: "n"},
	} {
		for _, subject := range []string{s.stream(key), s.index(key), s.watch(key)} {
			if got, err := s.keyOf(subject); err != nil || got != key {
				t.Errorf("%s: %v, %v, want %v", subject, got, err, key)
			}
		}
	}
	if _, err := s.keyOf("N.s"); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

func TestParseURL(t *testing.T) {
	for _, good := range []string{
		"nats://h", "nats://u:p@h:4222,nats://h2", "tls://h/", "nats://h?name=a-B_1&timeout=3s&replicas=3&max_bytes=5&storage=memory&domain=d",
	} {
		if _, err := parse(good, nil); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "h:4222", "http://h", "nats://", "nats://h/x", "nats://h?x=1", "nats://h?timeout=3",
		"nats://h?timeout=-3s", "nats://h?replicas=2",
		"nats://h?name=a.b", "nats://h?name=a%20b", "nats://h?storage=disk", "nats://h?max_bytes=-1",
		"nats://h?ca=/does/not/exist",
		"nats://h?cert=one", "nats://u:se%zzcret@h",
	} {
		_, err := parse(bad, nil)
		if !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", bad, err)
		}
	}
}

// TestChecksumOfABatchIsCompared hands out a message whose body is not the one that was written.
func TestChecksumOfABatchIsCompared(t *testing.T) {
	key := reprise.StreamKey{Tenant: "t", Name: "s"}
	e := &entry{state: &state{first: 3, count: 2, sum: sumOf([]byte("two events"))}, body: []byte("two events")}
	if b, err := new(Store).batch(t.Context(), key, e); err != nil || b.First != 3 || b.Count != 2 {
		t.Errorf("as it was written: %+v, %v", b, err)
	}
	e.body = []byte("two Events")
	if _, err := new(Store).batch(t.Context(), key, e); !errors.Is(err, ErrDamaged) {
		t.Errorf("changed: %v, want ErrDamaged", err)
	}
}
