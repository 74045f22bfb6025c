package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/transfer"
)

// problems are what a check reports.
func problems(t *testing.T, store reprise.Store, opts *transfer.CheckOptions) (all []string, checked transfer.Checked) {
	t.Helper()
	checked, err := transfer.Check(t.Context(), store, opts, func(p transfer.Problem) { all = append(all, p.String()) })
	check(t, err)
	if int(checked.Problems) != len(all) {
		t.Fatalf("%d problems are counted, %d were told", checked.Problems, len(all))
	}
	return all, checked
}

func TestCheckAcceptsCopyOfValidStreams(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to reprise.Store) {
		n := fill(t, from)
		copyAll(t, from, to)
		for _, opts := range []*transfer.CheckOptions{nil, {Opaque: true}, {PageBytes: 1}} {
			all, checked := problems(t, to, opts)
			if len(all) > 0 || checked.Streams != int64(n) || checked.Events != 40+11+50+16+6+4 {
				t.Fatalf("%+v: %q", checked, all)
			}
		}
	})
}

// records are the bytes of events of these types.
func records(t *testing.T, types ...string) []byte {
	t.Helper()
	var b []byte
	for _, typ := range types {
		var err error
		b, err = reprise.AppendRecord(b, &reprise.Event{Type: typ, Data: []byte("data")})
		check(t, err)
	}
	return b
}

// TestCheckReportsInvalidStreams writes streams that no Log would write.
func TestCheckReportsInvalidStreams(t *testing.T) {
	ended := func(data string) *reprise.End { return &reprise.End{Outcome: "completed", Data: []byte(data)} }
	for name, c := range map[string]struct {
		req  reprise.AppendRequest
		want string
	}{
		"more events than records": {
			reprise.AppendRequest{Count: 3, Bytes: records(t, "a", "b"), Kept: 100},
			"event 3 of 3",
		},
		"fewer events than records": {
			reprise.AppendRequest{Count: 1, Bytes: records(t, "a", "b"), Kept: 100},
			"after the last of 1 events",
		},
		"nonsense": {
			reprise.AppendRequest{Count: 1, Bytes: []byte("\xff\xff"), Kept: 100},
			"event 1 of 1",
		},
		"an end that is not told": {
			reprise.AppendRequest{Count: 1, Bytes: records(t, "end"), Kept: 100},
			"is an end, and the stream has not",
		},
		"an end that is not there": {reprise.AppendRequest{
			Count: 1, Bytes: records(t, "a"), Kept: 100,
			End: ended("data"),
		}, "its last event is no end"},
		"an end in the middle": {reprise.AppendRequest{
			Count: 2, Bytes: records(t, "end", "a"), Kept: 100,
			End: ended("data"),
		}, "event 2 comes after the end"},
		"two ends": {reprise.AppendRequest{
			Count: 2, Bytes: records(t, "end", "end"), Kept: 100,
			End: ended("data"),
		}, "event 2 comes after the end"},
		"another end": {reprise.AppendRequest{
			Count: 1, Bytes: records(t, "end"), Kept: 100,
			End: ended("other"),
		}, "other data"},
		"too few bytes": {reprise.AppendRequest{Count: 1, Bytes: records(t, "a"), Kept: 3}, "it says 3"},
		"bytes of nothing": {
			reprise.AppendRequest{Count: 1, Bytes: records(t, "a"), Kept: 3, Earliest: 2},
			"nothing is kept, and it says 3",
		},
		"a producer of the future": {
			reprise.AppendRequest{
				Count: 1, Bytes: records(t, "a"), Kept: 100,
				Producers: []reprise.Producer{{ID: "p", First: 1, Last: 2}},
			},
			"appended events 1 to 2, the tail is 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory(t)
			info, err := store.Create(t.Context(), reprise.StreamInfo{Key: key("s"), Epoch: reprise.NewEpoch()})
			check(t, err)
			req := c.req
			req.Key, req.Epoch, req.First, req.Earliest = info.Key, info.Epoch, 1, max(1, req.Earliest)
			check(t, errors.Join(store.Append(t.Context(), []reprise.AppendRequest{req})...))
			all, _ := problems(t, store, nil)
			if len(all) == 0 || !strings.Contains(strings.Join(all, "\n"), c.want) ||
				!strings.HasPrefix(all[0], "stream default/s: ") {
				t.Fatalf("%q, want one with %q", all, c.want)
			}
		})
	}
}

// lossy is a Store that loses a batch, and one that cannot be read.
type lossy struct {
	reprise.Store
	lost int
	err  error
}

func (l lossy) Read(ctx context.Context, k reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := l.Store.Read(ctx, k, after, maxBytes)
	if len(page.Batches) > l.lost {
		page.Batches = append(page.Batches[:l.lost:l.lost], page.Batches[l.lost+1:]...)
	}
	return page, errors.Join(err, l.err)
}

func (l lossy) Check(context.Context) ([]string, error) { return []string{"a page is torn"}, nil }

func (l lossy) Unwrap() reprise.Store { return l.Store }

func TestHolesAreFound(t *testing.T) {
	store := memory(t)
	add(t, create(t, openLog(t, store), key("s"), reprise.StreamConfig{}, nobody), 5, 1, reprise.AppendOptions{})
	for lost, want := range []string{
		"events 1 to 1 are missing", "events 2 to 2 are missing",
		"events 3 to 3 are missing",
	} {
		all, _ := problems(t, lossy{Store: store, lost: lost}, nil)
		if len(all) != 2 || all[0] != "a page is torn" || all[1] != "stream default/s: "+want {
			t.Fatalf("without batch %d: %q", lost, all)
		}
	}
}

// TestDamageDoesNotHideTheRest: an error of one stream is a problem, one of the store ends the check.
func TestDamageDoesNotHideTheRest(t *testing.T) {
	store := memory(t)
	log := openLog(t, store)
	for i := range 3 {
		add(t, create(t, log, key(fmt.Sprint("s", i)), reprise.StreamConfig{}, nobody), 5, 1, reprise.AppendOptions{})
	}
	if all, _ := problems(t, lossy{Store: store, lost: 9, err: errors.New("torn")}, nil); len(all) != 1+3 {
		t.Fatalf("%q", all)
	}
	down := lossy{Store: store, lost: 9, err: reprise.ErrUnavailable}
	if _, err := transfer.Check(t.Context(), down, nil, func(transfer.Problem) {}); !errors.Is(err,
		reprise.ErrUnavailable) {
		t.Fatal(err)
	}
}
