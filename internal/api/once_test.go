package api_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
)

const orderKey = "Idempotency-Key: order-7"

// A publish that is repeated under its key is appended once, and answered as before.
func TestPublishOnceUnderKey(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	w.stream("other")
	const body = `{"events":[{"data":1},{"data":2}]}`
	publish := func(stream, body, key string) *answer {
		return w.do("POST", "/v1/streams/"+stream+"/events", body, key)
	}
	first := publish("s", body, orderKey).is(200)
	for range reprise.MaxProducers + 1 { // so that the stream remembers the producer no longer
		publish("s", `{"data":"between"}`, fmt.Sprint("Idempotency-Key: ", time.Now().UnixNano())).is(200)
	}
	again := publish("s", body, orderKey).is(200)
	if first.number("first") != 1 || first.number("last") != 2 || strings.Contains(first.body, "duplicate") {
		t.Errorf("the first answer: %s", first.body)
	}
	if again.number("first") != 1 || again.number("last") != 2 || again.text("cursor") != first.text("cursor") ||
		!strings.Contains(again.body, `"duplicate":true`) {
		t.Errorf("the second answer: %s, the first: %s", again.body, first.body)
	}
	publish("s", `{"events":[{"data":1},{"data":3}]}`, orderKey).refused(409, "conflict")
	w.do("POST", "/v1/streams/s/events?type=x", body, orderKey, "Content-Type: text/plain").refused(409, "conflict")
	if a := publish("other", body, orderKey).is(200); a.number("first") != 1 {
		t.Errorf("the key counts for another stream too: %s", a.body)
	}
	if a := w.do("GET", "/v1/streams/s", ""); a.number("events") != 2+reprise.MaxProducers+1 {
		t.Errorf("events were appended again: %s", a.body)
	}
	publish("s", body, "Idempotency-Key: "+strings.Repeat("k", 255)).is(200)
	publish("s", body, "Idempotency-Key: "+strings.Repeat("k", 256)).refused(422, "invalid")
	w.do("POST", "/v1/streams/s/events", body, orderKey, "Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 0").
		refused(422, "invalid")
	w.do("POST", "/v1/streams/s/events", "{}\n", orderKey, "Content-Type: application/x-ndjson",
		"Accept: application/x-ndjson").refused(422, "invalid")
}

// The end of a stream can be repeated under a key, and so can an append before it.
func TestEndOnceUnderKey(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	w.do("POST", "/v1/streams/s/events", `{"data":1}`, orderKey).is(200)
	const end = `{"outcome":"completed","data":1}`
	w.do("POST", "/v1/streams/s/end", end, orderKey).refused(409, "conflict") // which was not the request
	first := w.do("POST", "/v1/streams/s/end", end, "Idempotency-Key: end").is(200)
	again := w.do("POST", "/v1/streams/s/end", end, "Idempotency-Key: end").is(200)
	if again.text("cursor") != first.text("cursor") {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	w.do("POST", "/v1/streams/s/end", `{"outcome":"failed"}`, "Idempotency-Key: end").refused(409, "conflict")
	w.do("POST", "/v1/streams/s/end", end).refused(409, "stream_ended")
	if a := w.do("POST", "/v1/streams/s/events", `{"data":1}`, orderKey).is(200); a.number("last") != 1 {
		t.Errorf("the append before the end: %s", a.body)
	}
}

// A stream that was removed and made again has not taken what its namesake took.
func TestKeyOfRemovedStream(t *testing.T) {
	w := start(t, setup{})
	for range 2 {
		w.stream("s")
		if a := w.do("POST", "/v1/streams/s/events", `{"data":1}`, orderKey).is(200); strings.Contains(a.body, "dup") {
			t.Fatalf("a duplicate of what was removed: %s", a.body)
		}
		w.do("DELETE", "/v1/streams/s", "").is(204)
	}
}

// Requests under one key at the same time are appended once.
func TestKeyedAtOnce(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if a := w.do("POST", "/v1/streams/s/events", `{"data":1}`, orderKey).is(200); a.number("last") != 1 {
				t.Errorf("%s", a.body)
			}
		})
	}
	all.Wait()
	if a := w.do("GET", "/v1/streams/s", ""); a.number("events") != 1 {
		t.Errorf("appended more than once: %s", a.body)
	}
}

// forgetful is a store that fails to keep the records of keys while failing is set.
type forgetful struct {
	reprise.Store
	failing atomic.Bool
}

func (f *forgetful) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if f.failing.Load() && strings.HasPrefix(info.Key.Name, "appended:") {
		return reprise.StreamInfo{}, fmt.Errorf("%w: for the test", reprise.ErrUnavailable)
	}
	return f.Store.Create(ctx, info)
}

// A server that dies between an append and its record, or cannot record it, has not answered. The request is repeated,
// finds its events, and is recorded then.
func TestKeyThatWasNotRecorded(t *testing.T) {
	store := &forgetful{Store: memstore.New(nil)}
	w := start(t, setup{store: store})
	w.stream("s")
	store.failing.Store(true)
	publish := func(data string) *answer { return w.do("POST", "/v1/streams/s/events", `{"data":`+data+`}`, orderKey) }
	publish("1").refused(503, "store_unavailable")
	publish("2").refused(409, "conflict") // the first one is there
	store.failing.Store(false)
	for range 2 {
		if a := publish("1").is(200); a.number("first") != 1 || !strings.Contains(a.body, `"duplicate":true`) {
			t.Errorf("%s", a.body)
		}
	}
	for n := range reprise.MaxProducers { // the stream remembers the producer no longer, the record is there
		w.do("POST", "/v1/streams/s/events", `{"data":0}`, "Producer-Id: "+fmt.Sprint(n), "Producer-Epoch: 0",
			"Producer-Seq: 0").is(200)
	}
	if a := publish("1").is(200); a.number("first") != 1 {
		t.Errorf("%s", a.body)
	}
}

// A publish that expects its seq is refused if it would get another one.
func TestPublishExpectsSeq(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	publish := func(seq string, headers ...string) *answer {
		return w.do("POST", "/v1/streams/s/events?expected_seq="+seq, `{"data":1}`, headers...)
	}
	if a := publish("2").refused(409, "conflict"); !strings.Contains(a.text("detail"), "the seq 1, not 2") {
		t.Errorf("%s", a.body)
	}
	publish("1", orderKey).is(200)
	publish("1").refused(409, "conflict")
	if a := publish("1", orderKey).is(200); a.number("first") != 1 {
		t.Errorf("repeated: %s", a.body)
	}
	publish("2").is(200)
	for _, seq := range []string{"0", "-1", "x", "9223372036854775808"} {
		publish(seq).refused(400, "invalid")
	}
	w.do("POST", "/v1/streams/s/events?expected_seq=3", `{}`+"\n", "Content-Type: application/x-ndjson",
		"Accept: application/x-ndjson").refused(400, "invalid")
}
