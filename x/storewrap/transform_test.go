package storewrap_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"reprise"
	"reprise/store/memstore"
	"reprise/x/storewrap"
)

func transform(tb testing.TB, inner reprise.Store, opts storewrap.TransformOptions) reprise.Store {
	tb.Helper()
	s, err := storewrap.Transform(inner, opts)
	check(tb, err)
	return s
}

// TestTransformedStoreKeepsContract runs the suite with what is stored being another text, which is longer.
func TestTransformedStoreKeepsContract(t *testing.T) {
	flip := func(b []byte) []byte {
		b = bytes.Clone(b)
		for i := range b {
			b[i] ^= 0x55
		}
		return b
	}
	conform(t, func(tb testing.TB, inner reprise.Store) reprise.Store {
		return opaque(transform(tb, inner, storewrap.TransformOptions{
			Append: func(_ reprise.StreamKey, e *reprise.Event) bool {
				e.Data = append(flip(e.Data), "and more"...)
				return true
			},
			Read: func(_ reprise.StreamKey, e *reprise.Event) bool {
				e.Data = flip(bytes.TrimSuffix(e.Data, []byte("and more")))
				return true
			},
		}))
	})
}

func redact(key reprise.StreamKey, e *reprise.Event) bool {
	e.Data = bytes.ReplaceAll(e.Data, []byte("hunter2"), []byte("*******"))
	e.Seq = 99
	return e.Type != "debug"
}

// shown are the events of a stream in a Store, as "<seq> <type> <data>".
func shown(tb testing.TB, s reprise.Store, key reprise.StreamKey) (out []string) {
	tb.Helper()
	page, err := s.Read(tb.Context(), key, 0, 1<<20)
	check(tb, err)
	for _, b := range page.Batches {
		for e, err := range reprise.Records(b) {
			check(tb, err)
			out = append(out, fmt.Sprintf("%d %s %s", e.Seq, e.Type, e.Data))
		}
	}
	if page.Info.End != nil {
		out = append(out, "end: "+string(page.Info.End.Data))
	}
	return out
}

func TestEventsAreTransformed(t *testing.T) {
	want := []string{
		"1 stdout a", "2 removed ", "3 stdout password *******", "4 end " + `{"secret":"*******"}`,
		"end: " + `{"secret":"*******"}`,
	}
	for what, opts := range map[string]storewrap.TransformOptions{"append": {Append: redact}, "read": {Read: redact}} {
		inner := memstore.New(nil)
		s := transform(t, inner, opts)
		log, err := reprise.Open(t.Context(), s, nil)
		check(t, err)
		stream, _, err := log.Create(t.Context(), key("s"), reprise.StreamConfig{})
		check(t, err)
		_, err = stream.Append(t.Context(),
			reprise.Event{Type: "stdout", Data: []byte("a")}, reprise.Event{Type: "debug", Data: []byte("b")},
			reprise.Event{Type: "stdout", Data: []byte("password hunter2")})
		check(t, err)
		_, err = stream.End(t.Context(), "completed",
			reprise.Event{Data: []byte(`{"secret":"hunter2"}`), Format: reprise.FormatMembers})
		check(t, err)
		if got := shown(t, s, key("s")); !slices.Equal(got, want) {
			t.Errorf("%s: got %q", what, got)
		}
		if got := shown(t, inner, key("s")); slices.Equal(got, want) != (what == "append") {
			t.Errorf("%s: stored is %q", what, got)
		}
		list, err := s.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
		if err != nil || string(list.Streams[0].End.Data) != `{"secret":"*******"}` {
			t.Errorf("%s: listed with %q, %v", what, list.Streams[0].End.Data, err)
		}
		check(t, log.Close())
		check(t, s.Close())
	}
}

// TestTransformCannotChangeTheEnd: a function that changes or drops the end event has no effect on it.
func TestTransformCannotChangeTheEnd(t *testing.T) {
	inner := memstore.New(nil)
	defer inner.Close()
	s := opaque(transform(t, inner,
		storewrap.TransformOptions{Append: func(_ reprise.StreamKey, e *reprise.Event) bool {
			if e.Type != reprise.TypeEnd {
				e.Type = reprise.TypeEnd
				return true
			}
			return false
		}}))
	mustCreate(t, s, key("s"))
	mustAppend(t, s, request(key("s"), 1, "one"), ended(key("s"), 2))
	if got, want := shown(t, inner, key("s")), []string{"1 x one", "2 end ", "end: "}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestTransformRefuses(t *testing.T) {
	inner := memstore.New(nil)
	defer inner.Close()
	bad := func(_ reprise.StreamKey, e *reprise.Event) bool {
		e.Type = "not a type"
		return true
	}
	s := transform(t, inner, storewrap.TransformOptions{Append: bad})
	plain := opaque(inner)
	mustCreate(t, s, key("s"))
	mustCreate(t, s, key("other"))
	mustAppend(t, plain, request(key("s"), 1, "one"))
	errs := opaque(s).Append(t.Context(), []reprise.AppendRequest{request(key("s"), 2, "two")})
	if !errors.Is(errs[0], reprise.ErrInvalid) {
		t.Errorf("an event of no type: %v", errs)
	}
	none := transform(t, inner, storewrap.TransformOptions{Append: redact})
	reqs := []reprise.AppendRequest{
		request(key("other"), 1, "no event"),
		request(key("absent"), 1, "\x0b\x00\x00\x00\x00\x00\x00\x00\x01xab"),
	}
	reqs[1].Bytes[0] = byte(len(reqs[1].Bytes) - 1)
	errs = none.Append(t.Context(), reqs)
	if len(errs) != 2 || !errors.Is(errs[0], reprise.ErrInvalid) || !errors.Is(errs[1], reprise.ErrNotFound) {
		t.Errorf("bytes that are no event, and a stream that is not there: %v", errs)
	}
	s = transform(t, inner, storewrap.TransformOptions{Read: bad})
	if _, err := s.Read(t.Context(), key("s"), 0, 100); err == nil {
		t.Error("read an event of no type")
	}
	if _, err := storewrap.Transform(inner, storewrap.TransformOptions{}); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("no function: %v", err)
	}
}
