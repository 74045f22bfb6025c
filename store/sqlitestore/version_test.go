package sqlitestore_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"reprise"
	"reprise/store/sqlitestore"
)

// TestFileOfVersion1: a file of the version before, with a journal that was not folded, opens and
// goes on, also with owners; and again after that.
func TestFileOfVersion1(t *testing.T) {
	script, err := os.ReadFile("testdata/version1.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "events.db")
	execute(t, path, string(script))
	tails := map[string]uint64{"folded": 3, "waiting": 2, "execution:ended": 1}
	owner := reprise.Owner{Name: "replica-a", Fence: 1}
	for round := range uint64(3) {
		s, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, tail := range tails {
			page, err := s.Read(t.Context(), keyOf(name), 0, 1<<20)
			if err != nil || page.Info.Tail != tail || len(page.Batches) != int(tail) {
				t.Fatalf("round %d, %s: %d batches, tail %d of %d, %v", round, name, len(page.Batches), page.Info.Tail,
					tail, err)
			}
			if round == 0 && page.Info.Owner != (reprise.Owner{}) {
				t.Errorf("%s has the owner %v", name, page.Info.Owner)
			}
			if ended := page.Info.End != nil; ended {
				continue
			}
			req := one(&page.Info, []byte("of version 2"))
			req.Owner = owner
			if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
				t.Fatal(errs)
			}
			tails[name]++
		}
		if wrong, err := s.Check(t.Context()); err != nil || len(wrong) > 0 {
			t.Errorf("check: %q, %v", wrong, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, path, nil)
	page, err := s.Read(t.Context(), keyOf("waiting"), 0, 0)
	want := reprise.Producer{ID: "p", Epoch: 1, Seq: 2, First: 1, Last: 1}
	if err != nil || page.Info.Owner != owner || len(page.Info.Producers) != 1 || page.Info.Producers[0] != want {
		t.Errorf("owner %v, producers %v, %v", page.Info.Owner, page.Info.Producers, err)
	}
	if page, err = s.Read(t.Context(), keyOf("execution:ended"), 0, 0); err != nil ||
		string(page.Info.End.Data) != "done" {
		t.Errorf("end %v, %v", page.Info.End, err)
	}
}

// TestFileOfVersion2: a file of the version before has its lineage column added, keeps what it has, and keeps the
// lineage of streams that are copied into it, also when it is opened again.
func TestFileOfVersion2(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	for _, script := range []string{"testdata/version1.sql", "schema2.sql"} {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		execute(t, path, string(text)+"\nPRAGMA user_version=2;\n") // a script must not end with a comment
	}
	want := []reprise.Ancestor{{Epoch: "FIRST", Fork: 1 << 63}, {Epoch: "SECOND", Fork: 0}}
	for round := range 2 {
		s, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		page, err := s.Read(t.Context(), keyOf("folded"), 0, 1<<20)
		if err != nil || page.Info.Tail != 3 || len(page.Info.Lineage) > 0 {
			t.Errorf("round %d: %+v, %v", round, page.Info, err)
		}
		got, err := s.Create(
			t.Context(),
			reprise.StreamInfo{Key: keyOf("copied"), Epoch: "THIRD", Created: time.Now().UTC(), Lineage: want},
		)
		if err != nil || !slices.Equal(got.Lineage, want) {
			t.Errorf("round %d: %+v, %v", round, got, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTakeOverWaitsInTheJournal: after a crash the owner is the one that the journal says, not the row.
func TestTakeOverWaitsInTheJournal(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, filepath.Join(dir, "events.db"), &sqlitestore.Options{FoldAfter: time.Hour})
	info, err := s.Create(t.Context(), reprise.StreamInfo{
		Key: keyOf("s"), Epoch: reprise.NewEpoch(), Created: time.Now().UTC(),
		Owner: reprise.Owner{Name: "a", Fence: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	owners := []reprise.Owner{
		info.Owner,
		{Name: "b", Fence: 2},
		{Name: "b", Fence: 2},
		{Name: "c", Fence: 7},
		{Name: "c", Fence: 7},
	}
	for _, owner := range owners {
		req := one(&info, []byte("x"))
		req.Owner = owner
		if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
			t.Fatal(errs)
		}
	}
	left := filepath.Join(t.TempDir(), "left")
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, filepath.Join(left, "events.db"), nil)
	page, err := after.Read(t.Context(), info.Key, 0, 1<<20)
	if want := owners[len(owners)-1]; err != nil || page.Info.Owner != want || page.Info.Tail != 5 {
		t.Errorf("after a crash: owner %v, want %v, tail %d, %v", page.Info.Owner, want, page.Info.Tail, err)
	}
}

func keyOf(name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
}
