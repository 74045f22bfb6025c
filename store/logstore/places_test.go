package logstore

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"reprise"
)

// TestPlacesAreThoseOfSlice: whatever is added, behind the others and before them, the places are those of a plain
// slice.
func TestPlacesAreThoseOfSlice(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var all []batch // of a stream, in order
		for next := uint64(1 + rnd.IntN(5)); len(all) < 500; {
			b := batch{first: next, count: 1, size: rnd.Uint32N(300)}
			if rnd.IntN(10) == 0 {
				b.count = math.MaxUint32 - rnd.Uint32N(2)
			}
			all = append(all, b)
			next = b.last() + 1
		}
		var p places
		var want []batch
		at := uint32(headerBytes)
		for tries := 0; len(want) < 300; tries++ {
			from := rnd.IntN(len(all)) // a few that lie one behind the other
			if tries%3 == 0 {
				from = min(len(want), len(all)-1)
			}
			for _, b := range all[from:min(from+1+rnd.IntN(80), len(all))] {
				byFirst := func(x, y batch) int { return cmp.Compare(x.first, y.first) }
				i, there := slices.BinarySearchFunc(want, b, byFirst)
				if there {
					break
				}
				b.at = at
				at += b.size + rnd.Uint32N(60)
				want = slices.Insert(want, i, b)
				p.add(&b)
			}
		}
		if got := slices.Collect(p.from(0)); !slices.Equal(got, want) {
			t.Fatalf("round %d: places %v, want %v", round, got, want)
		}
		for i, b := range want {
			if got := slices.Collect(p.from(b.last())); !slices.Equal(got, want[i:]) {
				t.Fatalf("from the last event of batch %d on these are found: %v", i, got)
			}
		}
	}
}

// TestKeysOfOneHash: streams whose keys have the same hash are found, removed and put back in any order.
func TestKeysOfOneHash(t *testing.T) {
	m := newStreams()
	m.hash = func(_, name []byte) uint64 { return uint64(len(name)) }
	values := shared{tenants: map[reprise.Tenant]*tenant{}}
	there := map[reprise.StreamKey]*stream{}
	rnd := rand.New(rand.NewPCG(3, 4))
	id := uint64(0)
	for range 2000 {
		key := testKey(fmt.Sprint(rnd.IntN(20)))
		if st := there[key]; st != nil {
			m.remove(st)
			delete(there, key)
		} else {
			id++
			there[key] = values.stream(id, &reprise.StreamInfo{Key: key})
			m.put(there[key])
			if id%2 == 0 {
				m.rest(id, appendStream(nil, there[key]))
				there[key] = m.wake(id, &values)
			}
		}
		for n := range 20 {
			if key := testKey(fmt.Sprint(n)); m.peek(m.find(key), values.tenants) != there[key] {
				t.Fatalf("%s is found as %v, want %v", key, m.peek(m.find(key), values.tenants), there[key])
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
