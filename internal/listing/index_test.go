package listing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"reprise"
)

// TestPagesHaveEveryStreamOnce: whatever was added and removed, and wherever a page ends, the pages of a list are the
// streams of a scan, the newest first.
func TestPagesHaveEveryStreamOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var x Index
	there := map[uint64]reprise.StreamKey{}
	newest := uint64(0)
	for newest < 3000 {
		newest++
		key := reprise.StreamKey{
			Tenant: reprise.Tenant(fmt.Sprintf("t%d", random.IntN(2))),
			Name:   []string{"", "a:", "b:"}[random.IntN(3)] + fmt.Sprint(newest),
		}
		there[newest] = key
		x.Add(key, newest)
		for len(there) > 900 || random.IntN(4) == 0 {
			for number, key := range there {
				x.Remove(key, number)
				delete(there, number)
				break
			}
		}
	}
	for _, q := range []reprise.ListQuery{
		{AllNamespaces: true},
		{},
		{Tenant: "t1"},
		{Tenant: "t1", Namespace: "a:"},
		{Namespace: "b:"},
		{Tenant: "t0", AllNamespaces: true, Namespace: "a:"},
		{Tenant: "t2"},
	} {
		var want []uint64
		for number, key := range there {
			if (q.Tenant == "" || q.Tenant == key.Tenant) && (q.AllNamespaces || q.Namespace == key.Namespace()) {
				want = append(want, number)
			}
		}
		slices.Sort(want)
		slices.Reverse(want)
		for _, q.Limit = range []int{1, 7, 256, 1000} {
			var got []uint64
			for q.After = ""; ; {
				numbers, next, err := x.Page(q, newest, nil)
				if err != nil || len(numbers) > q.Limit {
					t.Fatalf("%+v: %d streams, %v", q, len(numbers), err)
				}
				got = append(got, numbers...)
				if q.After = next; next == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: %d streams, want %d", q, len(got), len(want))
			}
		}
	}
	for _, after := range []string{"0", "3001", "01", "-1", "x", "1 "} {
		_, _, err := x.Page(reprise.ListQuery{After: after, Limit: 1}, newest, nil)
		if !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("after %q: %v", after, err)
		}
	}
}

// TestPagesLeaveOutWhatIsNotTaken: pages with conditions have every stream that is taken once, and look at a bounded
// number of others.
func TestPagesLeaveOutWhatIsNotTaken(t *testing.T) {
	const streams = 3*maxLooked + 5
	var x Index
	for number := range uint64(streams) {
		x.Add(reprise.StreamKey{Tenant: "t", Name: fmt.Sprint(number)}, number+1)
	}
	for _, every := range []uint64{1, 3, maxLooked - 1, maxLooked, maxLooked + 1, streams, streams + 1} {
		q := reprise.ListQuery{Tenant: "t", Open: true, Limit: 100}
		var got []uint64
		for {
			looked := 0
			numbers, next, err := x.Page(q, streams, func(number uint64) bool {
				looked++
				return number%every == 0
			})
			if err != nil || len(numbers) > q.Limit || looked > maxLooked {
				t.Fatalf("every %d: %d streams of %d, %v", every, len(numbers), looked, err)
			}
			got = append(got, numbers...)
			if q.After = next; next == "" {
				break
			}
		}
		slices.Reverse(got)
		if uint64(len(got)) != streams/every || !slices.IsSorted(got) {
			t.Errorf("every %d: %d streams, want %d", every, len(got), streams/every)
		}
	}
}

// TestNumbersFarApart: numbers of streams that are more than 32 bits apart, with others removed between them.
func TestNumbersFarApart(t *testing.T) {
	var x Index
	key := reprise.StreamKey{Tenant: "t", Name: "s"}
	numbers := []uint64{1, 2, 1<<32 + 1, 1<<32 + 2, 1<<33 + 1, 1 << 34, 1<<34 + 1<<32 - 1, 1 << 60}
	for _, number := range numbers {
		x.Add(key, number)
	}
	for len(numbers) > 0 {
		want := slices.Clone(numbers)
		slices.Reverse(want)
		if got, _, err := x.Page(reprise.ListQuery{Limit: 100}, 1<<60, nil); !slices.Equal(got, want) {
			t.Errorf("%d, %v, want %d", got, err, want)
		}
		i := len(numbers) / 2
		x.Remove(key, numbers[i])
		numbers = slices.Delete(numbers, i, i+1)
	}
}
