package memo_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/memo"
	"reprise/store/memstore"
)

// open returns a Book of one bucket, whose bound for a bucket is 5.
func open(t *testing.T, logged *strings.Builder) (*reprise.Log, *memo.Book) {
	t.Helper()
	log, err := reprise.Open(t.Context(), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log, memo.New(log, memo.Options{
		Namespace: "test:", Age: time.Hour, Records: 1024, Early: "too many",
		Hash:   func(reprise.Tenant, string) uint16 { return 0 },
		Logger: slog.New(slog.NewTextHandler(logged, nil)),
	})
}

func add(t *testing.T, b *memo.Book, tenant reprise.Tenant, name, data string) {
	t.Helper()
	if err := b.Add(t.Context(), tenant, memo.Record("note", time.Now(), name, []byte(data))); err != nil {
		t.Fatal(err)
	}
}

func found(t *testing.T, q *memo.Search) string {
	t.Helper()
	events, err := q.Records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range events {
		_, data := memo.Parse(&events[i])
		all = append(all, string(data))
	}
	return strings.Join(all, " ")
}

// A search finds the records of its name and tenant, also those that are added later, until their time is past.
func TestSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := open(t, new(strings.Builder))
		q := b.Search("a", "name")
		if got := found(t, q); got != "" {
			t.Errorf("found %q before there is any", got)
		}
		add(t, b, "a", "name", "1")
		add(t, b, "a", "nam", "no")
		add(t, b, "a", "name2", "no")
		add(t, b, "b", "name", "no")
		if got := found(t, q); got != "1" {
			t.Errorf("found %q", got)
		}
		time.Sleep(30 * time.Minute)
		add(t, b, "a", "name", "2")
		if got := found(t, q); got != "1 2" {
			t.Errorf("found %q after a second one was added", got)
		}
		time.Sleep(30 * time.Minute)
		if got := found(t, b.Search("a", "name")); got != "2" {
			t.Errorf("found %q after the time of the first", got)
		}
	})
}

// The records of a bucket are bounded, and it is told once an hour that some are forgotten before their time.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		log, b := open(t, &logged)
		for n := range 40 {
			add(t, b, "a", fmt.Sprint(n), "x")
		}
		s, err := log.Stream(context.Background(), b.Stream("a", "0"))
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context())
		if err != nil || info.Kept() > 5 || info.Kept() == 0 {
			t.Errorf("%d records are kept, %v", info.Kept(), err)
		}
		if got := found(t, b.Search("a", "39")); got != "x" {
			t.Errorf("the newest is forgotten: %q", got)
		}
		if strings.Count(logged.String(), "too many") != 1 {
			t.Errorf("logged: %s", logged.String())
		}
	})
}

// Records whose time is past are removed when others are added.
func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, b := open(t, new(strings.Builder))
		list := b.Stream("a", "all")
		for range 127 {
			if err := b.AddTo(t.Context(), list, memo.Record("note", time.Now(), "n", nil)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if err := b.AddTo(t.Context(), list, memo.Record("note", time.Now(), "n", nil)); err != nil {
			t.Fatal(err)
		}
		s, err := log.Stream(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := s.Info(t.Context()); err != nil || info.Kept() != 60 {
			t.Errorf("%d records are kept, %v; an hour has 60", info.Kept(), err)
		}
	})
}
