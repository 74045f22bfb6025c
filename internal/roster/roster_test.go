package roster_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/roster"
	"reprise/replica"
	"reprise/store/memstore"
)

// TestServersSayWhatTheyDo: the list has each live server once, in pages, with what it says; one that does not answer
// is listed without.
func TestServersSayWhatTheyDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		log, err := reprise.Open(t.Context(), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		}()
		var lists []*roster.Roster
		var members []*replica.Member
		for i := range 4 {
			m, err := replica.Join(t.Context(), log, &replica.Options{Name: fmt.Sprint("r", i)})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			members = append(members, m)
			if i == 3 { // of a version that does not answer
				break
			}
			about := func() roster.About {
				return roster.About{Version: fmt.Sprint("v", i), Running: i, Streams: 10 + i}
			}
			lists = append(lists, roster.New(roster.Options{Replica: m, About: about}))
		}
		time.Sleep(3 * time.Second) // until all see all
		var seen []roster.Server
		for after, pages := "", 0; pages == 0 || after != ""; pages++ {
			page, next, err := lists[1].List(t.Context(), after, 3)
			if err != nil || len(page) > 3 {
				t.Fatalf("after %q: %+v, %v", after, page, err)
			}
			seen, after = append(seen, page...), next
		}
		if len(seen) != 4 {
			t.Fatalf("listed %+v", seen)
		}
		for i, s := range seen {
			if s.ID != members[i].Name() || s.Self != (i == 1) || s.Joined.IsZero() || s.Beat.IsZero() {
				t.Errorf("%d: %+v", i, s)
			}
			switch a := s.About; {
			case i == 3 && a != nil:
				t.Errorf("the silent one says %+v", a)
			case i < 3 && (a == nil || a.Version != fmt.Sprint("v", i) || a.Running != i || a.Streams != 10+i):
				t.Errorf("%d says %+v", i, a)
			}
		}
		lists[0].Close()
		began := time.Now()
		page, _, err := lists[2].List(t.Context(), "", 1)
		if err != nil || len(page) != 1 || page[0].About != nil || time.Since(began) > 3*time.Second {
			t.Errorf("after it was closed: %+v, %v, after %s", page, err, time.Since(began))
		}
	})
}

// TestServerAlone: a server that has its store alone lists itself.
func TestServerAlone(t *testing.T) {
	r := roster.New(roster.Options{Name: "one", About: func() roster.About { return roster.About{Version: "v"} }})
	defer r.Close()
	page, next, err := r.List(t.Context(), "", 100)
	if err != nil || next != "" || len(page) != 1 || page[0].ID != "one" || !page[0].Self || page[0].About == nil ||
		!page[0].Beat.IsZero() {
		t.Errorf("%+v, %q, %v", page, next, err)
	}
	if page, _, err := r.List(t.Context(), "one", 100); err != nil || len(page) != 0 {
		t.Errorf("after it: %+v, %v", page, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := r.List(ctx, "", 100); err == nil {
		t.Error("a cancelled list has no error")
	}
}
