package mcpstore_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcpstore"
	"reprise/store/memstore"
)

// replay is what follows the id in the session.
func replay(t *testing.T, s *mcpstore.MCPGoEventStore, session, id string) (ids, messages []string, err error) {
	t.Helper()
	_, err = s.ReplayEventsAfter(t.Context(), session, id, func(id string, message json.RawMessage) error {
		ids, messages = append(ids, id), append(messages, string(message))
		return nil
	})
	return ids, messages, err
}

func storeAll(t *testing.T, s *mcpstore.MCPGoEventStore, session, stream string, messages ...string) (ids []string) {
	t.Helper()
	for _, m := range messages {
		id, err := s.StoreEvent(t.Context(), session, stream, json.RawMessage(m))
		check(t, err)
		ids = append(ids, id)
	}
	return ids
}

func TestMCPGoReplaysAfterEachID(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		s := mcpstore.NewForMCPGo(openLog(t, store, nil), nil)
		defer s.Close()
		ids := storeAll(t, s, "s1", "a", numbered(0, 99)...)
		storeAll(t, s, "s1", "b", "{}")
		for i, id := range ids {
			gotIDs, got, err := replay(t, s, "s1", id)
			check(t, err)
			if !slices.Equal(got, numbered(i+1, 99)) || !slices.Equal(gotIDs, ids[i+1:]) {
				t.Fatalf("after %d: got %q", i, got)
			}
		}
		stop := errors.New("stop")
		_, err := s.ReplayEventsAfter(t.Context(), "s1", ids[0], func(string, json.RawMessage) error { return stop })
		if !errors.Is(err, stop) {
			t.Fatalf("got %v", err)
		}
		check(t, s.PurgeSession(t.Context(), "s1"))
		if _, _, err := replay(t, s, "s1", ids[0]); !errors.Is(err, server.ErrUnknownEventID) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestMCPGoRefusesForeignIDs(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		s := mcpstore.NewForMCPGo(openLog(t, store, nil), nil)
		defer s.Close()
		mine, theirs := storeAll(t, s, "mine", "a", numbered(0, 9)...), storeAll(t, s, "theirs", "a", numbered(0, 9)...)
		other := storeAll(t, s, "mine", "b", numbered(0, 9)...)
		_, cursor, _ := strings.Cut(other[3], "~")
		forged := []string{
			"", "~", "a", "a~", "a~0", "a~" + cursor, "b" + mine[3][1:], strings.ToUpper(mine[3]), mine[3] + "0",
			"1" + mine[3], mine[3][:len(mine[3])-1] + "_",
			"a~9" + mine[3][2:], theirs[3], theirs[9], "../theirs:a" + mine[3][1:], strings.Repeat("x", 10_000),
			"\x00~\xff",
		}
		for _, id := range forged {
			if _, got, err := replay(t, s, "mine", id); !errors.Is(err, server.ErrUnknownEventID) || len(got) > 0 {
				t.Errorf("%q: got %q and %v", id, got, err)
			}
		}
		for _, session := range []string{"", "nobody", "Mine", "mine:a"} {
			_, got, err := replay(t, s, session, mine[3])
			if !errors.Is(err, server.ErrUnknownEventID) || len(got) > 0 {
				t.Errorf("session %q: got %q and %v", session, got, err)
			}
		}
	})
}

func TestMCPGoIDsAreGoodOnEveryReplicaWithTheKeys(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	keys := reprise.NewKeyset()
	open := func() *mcpstore.MCPGoEventStore {
		s := mcpstore.NewForMCPGo(openLog(t, closed(t, hub.Store()), &reprise.Options{Keys: keys, SweepEvery: -1}), nil)
		t.Cleanup(func() { check(t, s.Close()) })
		return s
	}
	one, other := open(), open()
	ids := storeAll(t, one, "s1", "a", numbered(0, 9)...)
	_, got, err := replay(t, other, "s1", ids[4])
	check(t, err)
	if !slices.Equal(got, numbered(5, 9)) {
		t.Fatalf("got %q", got)
	}
	check(t, other.PurgeSession(t.Context(), "s1"))
	if _, got, err := replay(t, one, "s1", ids[4]); err == nil {
		t.Fatalf("purged, and got %q", got)
	}
}

func TestMCPGoIDsOfMessagesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memstore.New(nil)}
		log, err := reprise.Open(t.Context(), f, &reprise.Options{SweepEvery: -1})
		check(t, err)
		s := mcpstore.NewForMCPGo(log, nil)
		ids := storeAll(t, s, "s1", "a", numbered(0, 4)...)
		f.set(func() { f.after = true })
		ids = append(ids, storeAll(t, s, "s1", "a", numbered(5, 9)...)...)
		want := func() {
			t.Helper()
			for i, id := range ids {
				gotIDs, got, err := replay(t, s, "s1", id)
				check(t, err)
				if !slices.Equal(got, numbered(i+1, 9)) || !slices.Equal(gotIDs, ids[i+1:]) {
					t.Fatalf("after %d: got %q", i, got)
				}
			}
			last := ids[9]
			if _, got, err := replay(t, s, "s1", last[:len(last)-4]+"0000"); !errors.Is(err, server.ErrUnknownEventID) {
				t.Fatalf("forged: got %q and %v", got, err)
			}
		}
		want()
		f.set(func() { f.after = false })
		time.Sleep(5 * time.Second)
		want()
		check(t, s.Close())
		check(t, log.Close())
		check(t, f.Close())
	})
}

// FuzzEventID: whatever id is sent, nobody gets another session's messages, and no id that was made up is served.
func FuzzEventID(f *testing.F) {
	store := memstore.New(nil)
	log, err := reprise.Open(f.Context(), store, &reprise.Options{SweepEvery: -1})
	check(f, err)
	s := mcpstore.NewForMCPGo(log, nil)
	f.Cleanup(func() {
		check(f, s.Close())
		check(f, log.Close())
		check(f, store.Close())
	})
	var given []string
	for _, session := range []string{"mine", "theirs"} {
		for range 3 {
			id, err := s.StoreEvent(f.Context(), session, "a", json.RawMessage(`"`+session+`"`))
			check(f, err)
			given = append(given, id)
			f.Add(id)
		}
	}
	for _, id := range []string{"", "~", "a~", "a~1", "a~~", "\x00~\xff", given[0] + "~" + given[3]} {
		f.Add(id)
	}
	_, tag, _ := strings.Cut(given[0], ".")
	f.Fuzz(func(t *testing.T, id string) {
		_, err := s.ReplayEventsAfter(t.Context(), "mine", id, func(_ string, message json.RawMessage) error {
			if string(message) != `"mine"` {
				t.Errorf("%q gives %s", id, message)
			}
			return nil
		})
		if err == nil && !strings.HasSuffix(id, "."+tag) {
			t.Errorf("%q is served", id)
		}
		if err != nil && !errors.Is(err, server.ErrUnknownEventID) {
			t.Errorf("%q: %v", id, err)
		}
	})
}
