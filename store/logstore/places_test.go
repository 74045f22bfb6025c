package logstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"reprise"
)

// TestPlacesAreThoseOfSlice: whatever is added, moved and dropped, the places are those of a plain slice.
func TestPlacesAreThoseOfSlice(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var p places
		var want []batch
		next, segment, at := 1+rnd.Uint64N(5), uint32(1), uint32(headerBytes)
		for range 600 {
			switch rnd.IntN(8) {
			case 0: // the next segment, or one before
				segment, at = 1+rnd.Uint32N(1000), headerBytes+rnd.Uint32N(100)
			case 1:
				if len(want) > 0 {
					b := &want[rnd.IntN(len(want))]
					b.segment, b.at = 1+rnd.Uint32N(1000), rnd.Uint32()
					p.replace(*b)
				}
			case 2:
				seq := next
				if len(want) > 0 && rnd.IntN(20) > 0 {
					seq = want[0].first + rnd.Uint64N(next-want[0].first+1)/8
				}
				var dropped []batch
				p.drop(seq, func(b batch) { dropped = append(dropped, b) })
				n := 0
				for n < len(want) && want[n].last() < seq {
					n++
				}
				if !slices.Equal(dropped, want[:n]) {
					t.Fatalf("before %d these are dropped: %v, want %v", seq, dropped, want[:n])
				}
				want = want[n:]
			default:
				b := batch{first: next, count: 1, segment: segment, at: at, size: rnd.Uint32N(300)}
				if rnd.IntN(10) == 0 {
					b.count = math.MaxUint32 - rnd.Uint32N(2)
				}
				want = append(want, b)
				p.add(b)
				next, at = b.last()+1, at+b.size+rnd.Uint32N(60)
			}
			if got := slices.Collect(p.all()); !slices.Equal(got, want) || p.number() != len(want) {
				t.Fatalf("round %d: %d places %v, want %v", round, p.number(), got, want)
			}
		}
		for i, b := range want {
			if found, ok := p.find(b.first); !ok || found != b {
				t.Fatalf("batch %v is found as %v, %t", b, found, ok)
			}
			if got := slices.Collect(p.from(b.last())); !slices.Equal(got, want[i:]) {
				t.Fatalf("from the last event of batch %d on these are found: %v", i, got)
			}
			if _, ok := p.find(b.first + 1); ok && b.count > 1 {
				t.Fatal("an event within a batch is the first one of a batch")
			}
		}
	}
}

// TestKeysOfOneHash: streams whose keys have the same hash are found, removed and put back in any order.
func TestKeysOfOneHash(t *testing.T) {
	m := newByKey()
	m.hash = func(key reprise.StreamKey) uint64 { return uint64(len(key.Name)) }
	values := shared{tenants: map[reprise.Tenant]*tenant{}}
	there := map[reprise.StreamKey]*stream{}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		key := testKey(fmt.Sprint(rnd.IntN(20)))
		if st := there[key]; st != nil {
			m.remove(st)
			delete(there, key)
		} else {
			there[key] = values.stream(1, &reprise.StreamInfo{Key: key})
			m.put(there[key])
		}
		for n := range 20 {
			if key := testKey(fmt.Sprint(n)); m.get(key) != there[key] {
				t.Fatalf("%s is found as %v, want %v", key, m.get(key), there[key])
			}
		}
	}
}

// TestConfigurationsAreShared by streams that are made one after the other with equal ones.
func TestConfigurationsAreShared(t *testing.T) {
	values := shared{tenants: map[reprise.Tenant]*tenant{}}
	config := func(label string) *reprise.StreamConfig {
		return &reprise.StreamConfig{Labels: map[string]string{"a": label}, Meta: []byte("m")}
	}
	first := values.config(config("0"))
	if again := values.config(config("0")); again != first || values.config(&reprise.StreamConfig{}) != nil {
		t.Error("equal configurations take memory twice")
	}
	for n := range 2 * len(values.configs) {
		if c := values.config(config(fmt.Sprint(n))); !c.Equal(*config(fmt.Sprint(n))) {
			t.Fatalf("%+v", c)
		}
	}
	if !first.Equal(*config("0")) {
		t.Error("a configuration was changed")
	}
}

// TestCreateReturnsSharedConfiguration: a Log that keeps many streams keeps the labels once.
func TestCreateReturnsSharedConfiguration(t *testing.T) {
	s, _ := openWithStream(t, newSimDisk())
	var labels []map[string]string
	for _, name := range []string{"x", "y"} {
		info, err := s.Create(t.Context(), reprise.StreamInfo{
			Key: testKey(name), Epoch: "e", Config: reprise.StreamConfig{Labels: map[string]string{"a": "b"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, info.Config.Labels)
	}
	labels[0]["seen"] = "" // which no caller may do
	if _, seen := labels[1]["seen"]; !seen {
		t.Error("each stream has labels of its own")
	}
}
