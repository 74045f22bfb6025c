package pgstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/pgstore"
)

// promotion is a Log on a primary with an asynchronous standby.
type promotion struct {
	primary, standby *testserver.PostgresServer
	store            *pgstore.Store
	log              *reprise.Log
	streams          map[string]*reprise.Stream
}

// newPromotion makes the streams "lossy" and "idle" with ten events each, which the standby has, and adds five events
// to "lossy" that the standby never gets.
func newPromotion(t *testing.T, parameters string) *promotion {
	t.Helper()
	p := &promotion{primary: testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})}
	p.standby = p.primary.Standby(t)
	both := strings.Replace(p.primary.URL(), p.primary.Addr(), p.primary.Addr()+","+p.standby.Addr(), 1)
	p.store = mustOpen(t, both+"&target_session_attrs=read-write"+parameters, nil)
	log, err := reprise.Open(t.Context(), p.store, nil)
	check(t, err)
	t.Cleanup(func() { check(t, log.Close()) })
	p.log, p.streams = log, map[string]*reprise.Stream{}
	for _, name := range []string{"lossy", "idle"} {
		p.streams[name], _, err = log.Create(t.Context(), key(name), reprise.StreamConfig{})
		check(t, err)
		p.append(t, name, 10)
	}
	eventually(t, "the standby has the tables", func() bool {
		return p.count(t, `SELECT count(*) FROM pg_tables WHERE schemaname = 'reprise' AND tablename = 'streams'`) == 1
	})
	eventually(t, "the standby has what was committed", func() bool {
		return p.count(t, `SELECT count(*) FROM reprise.streams WHERE tail = 10`) == 2
	})
	sql(t, p.standby.URL(), `ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`)
	eventually(t, "the standby does not follow any more",
		func() bool { return p.count(t, `SELECT count(*) FROM pg_stat_wal_receiver`) == 0 })
	p.append(t, "lossy", 5)
	return p
}

// count is what a query finds on the standby.
func (p *promotion) count(t *testing.T, query string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.standby.URL())
	check(t, err)
	defer conn.Close(t.Context())
	check(t, conn.QueryRow(t.Context(), query).Scan(&n))
	return n
}

func (p *promotion) append(t *testing.T, name string, count int) {
	t.Helper()
	info, err := p.streams[name].Info(t.Context())
	check(t, err)
	for i := range count {
		_, err := p.streams[name].Append(t.Context(), reprise.Event{Data: fmt.Append(nil, int(info.Tail)+1+i)})
		check(t, err)
	}
}

// reader reads the events after a position, as many as are said.
func (p *promotion) reader(t *testing.T, name string, after uint64, read int) *reprise.Reader {
	t.Helper()
	r, err := p.streams[name].Reader(t.Context(), reprise.After(p.streams[name].Cursor(after)))
	check(t, err)
	t.Cleanup(func() { check(t, r.Close()) })
	next(t, r, after+1, read)
	return r
}

// next reads events, which must be numbered from a seq on and hold their numbers. Those of a run beyond count are
// lost to r.
func next(t *testing.T, r *reprise.Reader, from uint64, count int) {
	t.Helper()
	for end := from + uint64(count); from < end; {
		run, err := r.Next(t.Context())
		check(t, err)
		for e := range run.All() {
			if e.Seq != from || string(e.Data) != fmt.Sprint(from) {
				t.Fatalf("event %d holds %q, want event %d", e.Seq, e.Data, from)
			}
			from++
		}
	}
}

// fail ends the primary and promotes the standby.
func (p *promotion) fail(t *testing.T) {
	t.Helper()
	check(t, p.primary.Kill())
	sql(t, p.standby.URL(), `SELECT pg_promote()`)
}

// info reads a stream until the server answers.
func (p *promotion) info(t *testing.T, name string) (info reprise.StreamInfo) {
	t.Helper()
	eventually(t, "the standby has taken over", func() bool {
		page, err := p.store.Read(t.Context(), key(name), 0, 1<<20)
		if err != nil && !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatal(err)
		}
		info = page.Info
		return err == nil
	})
	return info
}

// TestPromotionTellsFork (G1): an asynchronous standby that lacks the newest events is promoted. Reading alone puts the
// streams into another epoch. Readers at or below the fork go on exactly, those beyond it are told the fork.
func TestPromotionTellsFork(t *testing.T) {
	p := newPromotion(t, "")
	lossy, idle := p.streams["lossy"], p.streams["idle"]
	before := p.info(t, "lossy")
	var cursors []reprise.Cursor
	for seq := range uint64(16) {
		cursors = append(cursors, lossy.Cursor(seq))
	}
	beyond, waiting := p.reader(t, "lossy", 0, 15), p.reader(t, "idle", 0, 10)
	p.fail(t)

	want := []reprise.Ancestor{{Epoch: before.Epoch, Fork: 10}}
	for range 2 {
		after := p.info(t, "lossy")
		if after.Epoch == before.Epoch || after.Tail != 10 || !slices.Equal(after.Lineage, want) {
			t.Fatalf("epoch %s, tail %d, lineage %v, want another one than %s, 10, %v",
				after.Epoch, after.Tail, after.Lineage, before.Epoch, want)
		}
	}
	for _, name := range []string{"lossy", "idle"} {
		if now, err := p.streams[name].Info(t.Context()); err != nil || now.Tail != 10 {
			t.Fatalf("%s: tail %d, %v", name, now.Tail, err)
		}
	}
	for seq, cursor := range cursors {
		r, err := lossy.Reader(t.Context(), reprise.After(cursor))
		if seq <= 10 {
			check(t, err)
			next(t, r, uint64(seq)+1, 10-seq)
			check(t, r.Close())
			continue
		}
		window, ok := errors.AsType[*reprise.WindowError](err)
		if !ok || window.Reason != reprise.EpochChanged || window.Fork.Seq != 10 ||
			window.TakenBack() != uint64(seq)-10 {
			t.Errorf("after %d: %v", seq, err)
		}
	}
	_, err := beyond.Next(t.Context())
	window, ok := errors.AsType[*reprise.WindowError](err)
	if !ok || window.Reason != reprise.EpochChanged || window.Fork.Seq != 10 || window.TakenBack() != 5 {
		t.Fatalf("beyond the fork: %v", err)
	}
	check(t, beyond.Seek(reprise.After(window.Resume())))
	p.append(t, "lossy", 2)
	p.append(t, "idle", 2)
	next(t, beyond, 11, 2)
	next(t, waiting, 11, 2) // lost nothing, and is told nothing
	now, err := idle.Info(t.Context())
	if err != nil || now.Tail != 12 || len(now.Lineage) != 1 || now.Lineage[0].Fork != 10 {
		t.Errorf("idle: tail %d, lineage %v, %v", now.Tail, now.Lineage, err)
	}
}

// TestPromotionKeepsEpochIfToldSo: with failover=keeps a stream that nobody knows more of stays in its epoch. One of
// which a reader has seen more does not.
func TestPromotionKeepsEpochIfToldSo(t *testing.T) {
	p := newPromotion(t, "&failover=keeps")
	lossy, idle := p.info(t, "lossy"), p.info(t, "idle")
	p.fail(t)
	if got := p.info(t, "idle"); got.Epoch != idle.Epoch || got.Tail != 10 {
		t.Errorf("idle: epoch %s, tail %d, want %s and 10", got.Epoch, got.Tail, idle.Epoch)
	}
	// Who knows of nothing more decides nothing.
	if got := p.info(t, "lossy"); got.Epoch != lossy.Epoch || got.Tail != 10 {
		t.Errorf("lossy: epoch %s, tail %d, want %s and 10", got.Epoch, got.Tail, lossy.Epoch)
	}
	page, err := p.store.Read(t.Context(), key("lossy"), 15, 1)
	check(t, err)
	want := []reprise.Ancestor{{Epoch: lossy.Epoch, Fork: 10}}
	if got := page.Info; got.Epoch == lossy.Epoch || !slices.Equal(got.Lineage, want) {
		t.Errorf("lossy: epoch %s, lineage %v, want another one than %s, %v", got.Epoch, got.Lineage, lossy.Epoch, want)
	}
}

// TestStandbyIsNotRead: what a standby shows may be older than what was acknowledged, so nothing is read from it.
func TestStandbyIsNotRead(t *testing.T) {
	p := newPromotion(t, "")
	other := mustOpen(t, p.standby.URL(), nil)
	if _, err := other.Read(t.Context(), key("lossy"), 0, 1); !errors.Is(err, reprise.ErrUnavailable) {
		t.Errorf("before the promotion: %v", err)
	}
	p.fail(t)
	if got := tail(t, other, "lossy"); got != 10 {
		t.Errorf("after the promotion: tail %d", got)
	}
}

// TestTrimAfterPromotionCountsTheEventsThatAreLeft: a trim by one who counts events that the standby lacks finds the
// loss, and changes nothing. Stream.Trim then leaves the bytes of the events that are there.
func TestTrimAfterPromotionCountsTheEventsThatAreLeft(t *testing.T) {
	p := newPromotion(t, "")
	before := p.info(t, "lossy")
	p.fail(t)
	spec := reprise.RemoveSpec{Trim: 8, Kept: before.Bytes / 2, Epoch: before.Epoch}
	eventually(t, "the standby has taken over", func() bool {
		err := p.store.Remove(t.Context(), key("lossy"), spec)
		if err != nil && !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	page, err := p.store.Read(t.Context(), key("lossy"), 0, 1<<20)
	check(t, err)
	if got := page.Info; got.Epoch == before.Epoch || got.Earliest != 1 || got.Tail != 10 {
		t.Fatalf("after a trim in the epoch before: %+v", got)
	}
	left := int64(0)
	for _, b := range page.Batches[7:] {
		left += int64(len(b.Bytes))
	}
	check(t, p.streams["lossy"].Trim(t.Context(), 8))
	if got := p.info(t, "lossy"); got.Earliest != 8 || got.Bytes != left {
		t.Errorf("%d bytes are kept from %d on, want %d from 8 on", got.Bytes, got.Earliest, left)
	}
}
