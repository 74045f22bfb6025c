package sqlitestore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

func openFile(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// plan returns how SQLite finds what a query selects.
func plan(t *testing.T, s *Store, q *reprise.ListQuery) (steps []string) {
	t.Helper()
	err := s.read(t.Context(), func(conn *sqlite.Conn) error {
		query, labels, err := listQuery(conn, q, s.labels)
		if err != nil {
			return err
		}
		stmt, err := conn.Prepare("EXPLAIN QUERY PLAN " + query)
		if err != nil {
			return err
		}
		defer stmt.Reset()
		bindList(stmt, q, labels, 1<<62)
		for {
			more, err := stmt.Step()
			if err != nil || !more {
				return err
			}
			steps = append(steps, stmt.ColumnText(3))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// TestListsAreFoundByIndexes: a list of open streams and one by labels look at no others, and nothing is sorted. Of
// several labels the one is looked up that the fewest have.
func TestListsAreFoundByIndexes(t *testing.T) {
	s := openFile(t, filepath.Join(t.TempDir(), "db"))
	for i := range 50 {
		info := reprise.StreamInfo{
			Key: reprise.StreamKey{Tenant: "t", Name: fmt.Sprint("n:", i)}, Epoch: "e", Created: time.Now(),
		}
		info.Config.Labels = map[string]string{"all": "1", "each": fmt.Sprint(i)}
		if _, err := s.Create(t.Context(), info); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		q    reprise.ListQuery
		want []string
	}{
		{
			reprise.ListQuery{Namespace: "n:", Open: true, Limit: 10},
			[]string{"SEARCH streams USING INDEX streams_open (namespace=? AND id<?)"},
		},
		{
			reprise.ListQuery{Tenant: "t", Namespace: "n:", Labels: map[string]string{"each": "7"}, Limit: 10},
			[]string{
				"SEARCH labels USING PRIMARY KEY (label=? AND value=? AND stream<?)",
				"SEARCH streams USING INTEGER PRIMARY KEY (rowid=?)",
			},
		},
	} {
		if got := plan(t, s, &c.q); !slices.Equal(got, c.want) {
			t.Errorf("%+v is found by %q, want %q", c.q, got, c.want)
		}
	}
	both := map[string]string{"each": "7", "all": "1"}
	err := s.read(t.Context(), func(conn *sqlite.Conn) error {
		for range 20 { // the order of a map is random
			labels, err := rarestFirst(conn, both)
			if err != nil || len(labels) != 4 || labels[0] != fmt.Sprintf("%x", "each") {
				t.Fatalf("%q are looked up in that order, %v", labels, err)
			}
		}
		return nil
	})
	page, listErr := s.List(t.Context(), reprise.ListQuery{Tenant: "t", Namespace: "n:", Labels: both, Limit: 10})
	if err != nil || listErr != nil || len(page.Streams) != 1 || page.Streams[0].Key.Name != "n:7" {
		t.Errorf("%+v, %v, %v", page, err, listErr)
	}
}

// TestFileGetsIndexes: a file of a version without them gets them when it is opened, and its labels are found. They
// follow what is made, changed, swept and removed.
func TestFileGetsIndexes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := openFile(t, path)
	create := func(name, value string) {
		t.Helper()
		info := reprise.StreamInfo{Key: reprise.StreamKey{Tenant: "t", Name: name}, Epoch: "e", Created: time.Now()}
		info.Config.Labels = map[string]string{"l": value, "\xff": "\xfe"}
		if _, err := s.Create(t.Context(), info); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		create(name, "old")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = execute(conn, "DROP TRIGGER labels_of_new", "DROP TRIGGER labels_of_changed",
		"DROP TRIGGER labels_of_removed", "DROP TABLE labels", "DROP INDEX streams_open")
	if err = errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	s = openFile(t, path)
	wants := func(value string, want ...string) {
		t.Helper()
		q := reprise.ListQuery{Tenant: "t", Limit: 10, Labels: map[string]string{"l": value, "\xff": "\xfe"}}
		page, err := s.List(t.Context(), q)
		var got []string
		for i := range page.Streams {
			got = append(got, page.Streams[i].Key.Name)
		}
		if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("with %s: %q, %v, want %q", value, got, err, want)
		}
	}
	wants("old", "d", "c", "b", "a")
	create("e", "new")
	changed := reprise.StreamInfo{Key: reprise.StreamKey{Tenant: "t", Name: "a"}, Epoch: "e", Revision: 1}
	changed.Config.Labels = map[string]string{"l": "new", "\xff": "\xfe"}
	if _, err := s.Create(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]reprise.RemoveSpec{"b": {}, "c": {Remember: time.Now().Add(time.Hour)}} {
		if err := s.Remove(t.Context(), reprise.StreamKey{Tenant: "t", Name: name}, spec); err != nil {
			t.Fatal(err)
		}
	}
	wants("new", "e", "a")
	wants("old", "d")
	n := int64(0)
	err = s.read(t.Context(), func(conn *sqlite.Conn) (err error) {
		n, err = first(conn, "SELECT count(*) FROM labels")
		return err
	})
	if err != nil || n != 6 {
		t.Errorf("%d labels of 3 streams, %v", n, err)
	}
}
