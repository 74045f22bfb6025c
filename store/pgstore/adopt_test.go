package pgstore_test

import (
	"errors"
	"fmt"
	"testing"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/pgstore"
)

// A server that has less than was acknowledged takes over. Seqs that were lost are given again in another epoch
// alone, so that no cursor stands for two events.
func TestEventsLost(t *testing.T) {
	own := testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})
	s := mustOpen(t, own.URL(), nil)
	lost, idle := create(t, s, "lost"), create(t, s, "idle")
	for range 5 {
		put(t, s, &lost, 100, 1000)
		put(t, s, &idle, 100, 1000)
	}
	check(t, own.Backup())
	tail(t, s, "lost")
	for range 3 {
		put(t, s, &lost, 100, 1000)
	}
	check(t, own.Recover())
	for _, req := range []*reprise.AppendRequest{&lost, &idle} {
		if now := tail(t, s, req.Key.Name); now != 5 {
			t.Fatalf("%s: the tail is %d", req.Key, now)
		}
		goesOn(t, s, req, true)
	}
	fresh := create(t, s, "fresh")
	put(t, s, &fresh, 100, 1000)
}

// Where it is known that nothing is lost streams go on as they were, but for one of which somebody knows more.
func TestFailoverWithoutLossKeepsEpochs(t *testing.T) {
	own := testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})
	s := mustOpen(t, own.URL()+"&failover=keeps", nil)
	kept, lost := create(t, s, "kept"), create(t, s, "lost")
	put(t, s, &kept, 100, 1000)
	put(t, s, &lost, 100, 1000)
	check(t, own.Backup())
	tail(t, s, "lost")
	put(t, s, &lost, 100, 1000)
	check(t, own.Recover())
	tail(t, s, "lost")
	goesOn(t, s, &kept, false)
	goesOn(t, s, &lost, true)
}

// goesOn appends to a stream of which the server knows other than s, and wants it to begin another epoch or not.
func goesOn(t *testing.T, s *pgstore.Store, req *reprise.AppendRequest, other bool) {
	t.Helper()
	old := req.Epoch
	req.Bytes = content(req.Key.Name, req.First, 100)
	errs := s.Append(t.Context(), []reprise.AppendRequest{*req})
	page, err := s.Read(t.Context(), req.Key, 0, 1<<20)
	check(t, err)
	if got := page.Info.Epoch != old; got != other {
		t.Fatalf("%s: another epoch: %v, want %v", req.Key, got, other)
	}
	if fork, known := page.Info.ForkOf(old); !known || fork != page.Info.Tail {
		t.Fatalf("%s: the fork of the epoch before is %d, %t, want %d", req.Key, fork, known, page.Info.Tail)
	}
	if other && (errs == nil || !errors.Is(errs[0], reprise.ErrNotFound)) || !other && errs != nil {
		t.Fatalf("%s: append: %v", req.Key, errs)
	}
	req.Epoch, req.First = page.Info.Epoch, page.Info.Tail+1
	for range 2 {
		put(t, s, req, 100, 1000)
	}
	intact(t, s, req.Key.Name, 100)
}

// Tables that are copied to another server, by a dump for example, are told from the original.
func TestCopiedTables(t *testing.T) {
	name := schema(t, server)
	opts := &pgstore.Options{Schema: name}
	s := mustOpen(t, server.URL(), opts)
	req := create(t, s, "s")
	put(t, s, &req, 100, 1000)
	again := mustOpen(t, server.URL(), opts)
	put(t, again, &req, 100, 1000) // the same server
	sql(t, server.URL(), fmt.Sprintf(`UPDATE %q.origin SET system = 1`, name))
	goesOn(t, mustOpen(t, server.URL(), opts), &req, true)
}
