package replica

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"reprise"
)

// FuzzMessage: what is encoded is put together again, whatever lies before it in the inbox, which is passed over.
func FuzzMessage(f *testing.F) {
	f.Add("call", []byte(`{"id":"x","parts":2}`), []byte("rest of another"), "id", "from", "service", int64(1),
		[]byte("body"))
	f.Add("part", []byte("{"), []byte(nil), "", "", "", int64(-1), bytes.Repeat([]byte("x"), 3*partBytes+1))
	f.Fuzz(func(t *testing.T, typ string, rubbish, part []byte, id, from, service string, within int64, body []byte) {
		var a assembler
		a.add(&reprise.Event{Type: typ, Data: rubbish})
		a.add(&reprise.Event{Type: typePart, Data: part})
		sent := header{ID: id, From: from, Service: service, WithinMS: within}
		events, err := encode(typeCall, sent, body)
		if err != nil {
			t.Skip(err)
		}
		for i := range events {
			got, ok := a.add(&events[i])
			if ok != (i == len(events)-1) {
				t.Fatalf("event %d of %d completes a message: %t", i+1, len(events), ok)
			}
			if !ok {
				continue
			}
			want := header{
				ID: valid(id), From: valid(from), Service: valid(service), WithinMS: within,
				Parts: len(events) - 1,
			}
			if diff := cmp.Diff(want, got.header); diff != "" || !bytes.Equal(got.body, body) {
				t.Errorf("%d bytes of body for %d, header %s", len(got.body), len(body), diff)
			}
		}
	})
}

// valid is a text as JSON gives it back.
func valid(s string) string { return string([]rune(s)) }
