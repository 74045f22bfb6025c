package storewrap_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"reprise"
	"reprise/store/memstore"
	"reprise/store/storewrap"
)

// masterKey is a key of a Keyset.
type masterKey struct {
	ID     string
	Secret []byte
}

// newKeyset parses the lines of keys.
func newKeyset(keys ...masterKey) (*reprise.Keyset, error) {
	var text strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&text, "%s %s\n", k.ID, base64.StdEncoding.EncodeToString(k.Secret))
	}
	return reprise.ParseKeyset([]byte(text.String()))
}

func secret(fill byte) []byte { return bytes.Repeat([]byte{fill}, 32) }

func encryptWith(tb testing.TB, inner reprise.Store, keys ...masterKey) reprise.Store {
	tb.Helper()
	set, err := newKeyset(keys...)
	check(tb, err)
	s, err := storewrap.Encrypt(inner, set)
	check(tb, err)
	return s
}

// ended is an append of the end event.
func ended(key reprise.StreamKey, first uint64) reprise.AppendRequest {
	req := request(key, first, "the last secret batch")
	req.End = &reprise.End{Outcome: "completed", Time: created, Expires: created, Data: []byte("a secret end")}
	return req
}

// TestEncryptedStoreHoldsNoPlainText searches all that the wrapped Store has received.
func TestEncryptedStoreHoldsNoPlainText(t *testing.T) {
	inner := newAltered(t)
	s := encryptWith(t, inner, masterKey{ID: "k", Secret: secret(1)})
	mustCreate(t, s, key("s"))
	mustAppend(t, s, request(key("s"), 1, "a secret batch"), ended(key("s"), 2))
	page, err := inner.Read(t.Context(), key("s"), 0, 1<<20)
	check(t, err)
	text := fmt.Sprintf("%+v %s %s %s", page, page.Info.Config.Meta, page.Info.End.Data, page.Batches[0].Bytes)
	if strings.Contains(text, "secret") || strings.Contains(text, "who") {
		t.Errorf("stored: %q", text)
	}
	if got, want := texts(t, s, key("s")), []string{"a secret batch", "the last secret batch"}; !slices.Equal(got,
		want) {
		t.Errorf("got %q", got)
	}
	plain, err := s.Read(t.Context(), key("s"), 9, 0)
	check(t, err)
	if !plain.Info.Config.Equal(secretConfig()) || string(plain.Info.End.Data) != "a secret end" {
		t.Errorf("got %+v, end %+v", plain.Info.Config, plain.Info.End)
	}
}

// TestNoncesAreNotReused: every encryption uses a new nonce, also when an append is retried.
func TestNoncesAreNotReused(t *testing.T) {
	inner := newAltered(t)
	s := encryptWith(t, inner, masterKey{ID: "k", Secret: secret(1)})
	mustCreate(t, s, key("s"))
	seen := map[string]bool{}
	for range 2 {
		mustAppend(t, s, request(key("s"), 1, "same"))
		page, err := inner.Read(t.Context(), key("s"), 0, 1<<20)
		check(t, err)
		seen[string(page.Batches[0].Bytes)] = true
		check(t, s.Remove(t.Context(), key("s"), reprise.RemoveSpec{}))
		mustCreate(t, s, key("s")) // in the same epoch
	}
	if len(seen) != 2 {
		t.Error("a batch was encrypted twice with the same result")
	}
}

// TestEveryChangedByteIsFound changes each byte of a batch, of a configuration and of an end, and cuts them everywhere.
func TestEveryChangedByteIsFound(t *testing.T) {
	inner := newAltered(t)
	s := encryptWith(t, inner, masterKey{ID: "key-1", Secret: secret(1)})
	mustCreate(t, s, key("s"))
	mustAppend(t, s, ended(key("s"), 1))
	fields := map[string]func(p *reprise.Page) *[]byte{
		"batch":  func(p *reprise.Page) *[]byte { return &p.Batches[0].Bytes },
		"config": func(p *reprise.Page) *[]byte { return &p.Info.Config.Meta },
		"end":    func(p *reprise.Page) *[]byte { return &p.Info.End.Data },
	}
	for name, field := range fields {
		for _, change := range []func(b []byte, i int) []byte{
			func(b []byte, i int) []byte { b[i] ^= 1; return b },
			func(b []byte, i int) []byte { b[i] ^= 0x80; return b },
			func(b []byte, i int) []byte { return b[:i] },
			func(b []byte, i int) []byte { return slices.Insert(b, i, 7) },
		} {
			length := 1
			for i := 0; i < length; i++ {
				inner.page = func(_ reprise.StreamKey, p *reprise.Page) {
					if p.Info.End != nil {
						end := *p.Info.End
						p.Info.End = &end
					}
					b := field(p)
					length = len(*b)
					*b = change(bytes.Clone(*b), i)
				}
				if _, err := s.Read(t.Context(), key("s"), 0, 1<<20); err == nil {
					t.Errorf("%s: a change at byte %d of %d was not found", name, i, length)
				} else if errors.Is(err, reprise.ErrUnavailable) || errors.Is(err, reprise.ErrNotFound) {
					t.Errorf("%s: a change at byte %d is taken for %v", name, i, err)
				}
			}
			if length < 30 {
				t.Fatalf("%s has %d bytes", name, length)
			}
		}
	}
}

// TestEncryptedBatchIsBoundToItsPlace swaps valid encrypted batches between positions, streams and tenants.
func TestEncryptedBatchIsBoundToItsPlace(t *testing.T) {
	inner := newAltered(t)
	s := encryptWith(t, inner, masterKey{ID: "k", Secret: secret(1)})
	here, there, foreign := key("here"), key("there"), reprise.StreamKey{Tenant: "foreign", Name: "here"}
	for _, k := range []reprise.StreamKey{here, there, foreign} {
		mustCreate(t, s, k)
		mustAppend(t, s, request(k, 1, "one"), request(k, 2, "one"), ended(k, 3))
	}
	read := func(k reprise.StreamKey) reprise.Page {
		page, err := inner.Store.Read(t.Context(), k, 0, 1<<20)
		check(t, err)
		return page
	}
	batch := func(from reprise.Page, i, to int) func(*reprise.Page) {
		return func(p *reprise.Page) { p.Batches[to].Bytes = from.Batches[i].Bytes }
	}
	end := func(change func(e *reprise.End)) func(*reprise.Page) {
		return func(p *reprise.Page) {
			e := *p.Info.End
			change(&e)
			p.Info.End = &e
		}
	}
	for what, change := range map[string]func(*reprise.Page){
		"a batch to another seq":    batch(read(here), 0, 1),
		"a batch of another stream": batch(read(there), 0, 0),
		"a batch of another tenant": batch(read(foreign), 0, 0),
		"two batches exchanged": func(p *reprise.Page) {
			p.Batches[0].Bytes,
				p.Batches[1].Bytes = p.Batches[1].Bytes, p.Batches[0].Bytes
		},
		"another epoch":                  func(p *reprise.Page) { p.Info.Epoch = "7ZK3M9Q2VTX4WB8B" },
		"another count":                  func(p *reprise.Page) { p.Batches[2].Count = 2 },
		"a batch in place of the end":    end(func(e *reprise.End) { e.Data = read(here).Batches[2].Bytes }),
		"the end of another stream":      end(func(e *reprise.End) { e.Data = read(there).Info.End.Data }),
		"another outcome":                end(func(e *reprise.End) { e.Outcome = "failed" }),
		"an end at another seq":          func(p *reprise.Page) { p.Info.Tail, p.Batches = 2, p.Batches[:2] },
		"a configuration of another":     func(p *reprise.Page) { p.Info.Config = read(there).Info.Config },
		"another retention":              func(p *reprise.Page) { p.Info.Config.Retention.MaxEvents = 1 },
		"a configuration in plain text":  func(p *reprise.Page) { p.Info.Config = secretConfig() },
		"no configuration":               func(p *reprise.Page) { p.Info.Config = reprise.StreamConfig{} },
		"a batch in plain text":          func(p *reprise.Page) { p.Batches[0].Bytes = []byte("one") },
		"a batch as of another purpose":  func(p *reprise.Page) { p.Batches[2].Bytes = p.Info.End.Data },
		"all of another stream":          func(p *reprise.Page) { *p = read(there) },
		"all of another, under our name": func(p *reprise.Page) { *p = read(there); p.Info.Key = here },
	} {
		inner.page = func(k reprise.StreamKey, p *reprise.Page) {
			if k == here {
				change(p)
			}
		}
		if page, err := s.Read(t.Context(), here, 0, 1<<20); err == nil {
			t.Errorf("%s: read as %+v", what, page)
		}
	}
	inner.page = nil
	if got := texts(t, s, here); len(got) != 3 {
		t.Errorf("unchanged: %q", got)
	}
}

func TestKeysRotate(t *testing.T) {
	inner := newAltered(t)
	old, later := masterKey{ID: "old", Secret: secret(1)}, masterKey{ID: "new", Secret: secret(2)}
	before := encryptWith(t, inner, old)
	mustCreate(t, before, key("s"))
	mustAppend(t, before, request(key("s"), 1, "one"))

	both := encryptWith(t, inner, later, old)
	info, err := both.Create(t.Context(),
		reprise.StreamInfo{Key: key("s"), Epoch: "7ZK3M9Q2VTX4WB8B", Config: secretConfig()})
	if err != nil || info.Epoch != epoch || info.Tail != 1 {
		t.Errorf("created again under a new key: %+v, %v", info, err)
	}
	other := secretConfig()
	other.Meta = []byte("another")
	if _, err := both.Create(t.Context(),
		reprise.StreamInfo{Key: key("s"), Epoch: epoch, Config: other}); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("created with another configuration: %v", err)
	}
	mustAppend(t, both, request(key("s"), 2, "two"))
	if got := texts(t, both, key("s")); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q", got)
	}
	for what, s := range map[string]reprise.Store{
		"without the new key": before, "without the old key": encryptWith(t, inner, later),
		"with another secret": encryptWith(t, inner, masterKey{ID: "old", Secret: secret(3)},
			masterKey{ID: "new", Secret: secret(3)}),
	} {
		if _, err := s.Read(t.Context(), key("s"), 1, 1<<20); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := encryptWith(t, inner, later).List(t.Context(),
		reprise.ListQuery{AllNamespaces: true, Limit: 10}); err == nil {
		t.Error("listed without the key of a configuration")
	}
}

func TestKeysetIsChecked(t *testing.T) {
	good := masterKey{ID: "a", Secret: secret(1)}
	for what, keys := range map[string][]masterKey{
		"none": nil, "twice": {good, good}, "no id": {{Secret: secret(1)}},
		"short":   {{ID: "a", Secret: secret(1)[:31]}},
		"a space": {{ID: "a b", Secret: secret(1)}}, "a long id": {{ID: strings.Repeat("a", 33), Secret: secret(1)}},
	} {
		if _, err := newKeyset(keys...); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := storewrap.Encrypt(memstore.New(nil), nil); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("no keys: %v", err)
	}
}
