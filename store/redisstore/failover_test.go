package redisstore_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/redisstore"
)

// pair is a server and its replica.
func pair(t *testing.T, config ...string) (primary, replica *testserver.RedisServer) {
	t.Helper()
	primary = testserver.Redis(t, &testserver.RedisOptions{Config: config})
	replica = testserver.Redis(t, &testserver.RedisOptions{Config: config})
	follow(t, replica, primary.Addr())
	return primary, replica
}

// follow makes replica one of the server at addr, and waits until it has what that has.
func follow(t *testing.T, replica *testserver.RedisServer, addr string) {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	command(t, replica, "REPLICAOF", host, port)
	until(t, "the replica is in sync", func() bool {
		return strings.Contains(command(t, replica, "INFO", "replication"), "master_link_status:up")
	})
}

func command(tb testing.TB, s *testserver.RedisServer, args ...string) string {
	tb.Helper()
	out, err := s.Command(args...)
	must(tb, err)
	return out
}

// A replica that has not got what was acknowledged last is promoted. The seqs that it gives again are of
// another epoch, whoever asks: the replica of the program that knows of the lost events, and one that does not.
func TestPromotedReplicaWithoutTheLastEvents(t *testing.T) {
	primary, replica := testserver.Redis(t, nil), testserver.Redis(t, nil)
	between := newProxy(t, primary.Addr())
	follow(t, replica, between.listener.Addr().String())
	p := newProxy(t, primary.Addr())
	knows := mustOpen(t, p.url(primary.URL()), nil)
	first, second, same := create(t, knows, "first"), create(t, knows, "second"), create(t, knows, "same")
	for _, info := range []*reprise.StreamInfo{&first, &second, &same} {
		appendN(t, knows, info, 10)
	}
	until(t, "the replica has all", func() bool {
		return field(command(t, replica, "INFO", "replication"), "slave_repl_offset") ==
			field(command(t, primary, "INFO", "replication"), "master_repl_offset")
	})
	between.redirect("127.0.0.1:1") // where nobody is
	appendN(t, knows, &first, 5)
	appendN(t, knows, &second, 5)
	lost := read(t, knows, first.Key)
	must(t, primary.Kill())
	command(t, replica, "REPLICAOF", "NO", "ONE")
	p.redirect(replica.Addr())

	forked(t, read(t, knows, first.Key).Info, first.Epoch, 10) // before anything is appended
	wantError(t, tryOne(t, knows, &first, "after the lost"), reprise.ErrNotFound)
	goesOnInAnotherEpoch(t, knows, &first, 10)

	fresh := mustOpen(t, replica.URL(), nil)
	wantError(t, tryOne(t, fresh, &second, "in the place of a lost one"), reprise.ErrNotFound)
	goesOnInAnotherEpoch(t, fresh, &second, 10)

	// Nobody can know that this one has lost nothing.
	wantError(t, tryOne(t, fresh, &same, "event"), reprise.ErrNotFound)
	goesOnInAnotherEpoch(t, fresh, &same, 10)
	if lost.Info.Tail != 15 {
		t.Errorf("the tail was %d before the failover, want 15", lost.Info.Tail)
	}
}

// goesOnInAnotherEpoch checks that a stream has another epoch with its events up to tail, in which appends go on.
func goesOnInAnotherEpoch(t *testing.T, s *redisstore.Store, info *reprise.StreamInfo, tail uint64) {
	t.Helper()
	page := read(t, s, info.Key)
	if page.Info.Earliest != 1 {
		t.Fatalf("%s: %+v, want it from 1 on", info.Key, page.Info)
	}
	forked(t, page.Info, info.Epoch, tail)
	*info = page.Info
	appendN(t, s, info, 3)
	if page = read(t, s, info.Key); page.Info.Tail != tail+3 || page.Info.Epoch != info.Epoch {
		t.Fatalf("%s, after more appends: %+v", info.Key, page.Info)
	}
}

// forked checks that a stream is in another epoch than before, which it has left at the tail.
func forked(t *testing.T, info reprise.StreamInfo, before reprise.Epoch, tail uint64) {
	t.Helper()
	want := []reprise.Ancestor{{Epoch: before, Fork: tail}}
	last := info.Lineage[max(0, len(info.Lineage)-1):]
	if info.Epoch == before || info.Tail != tail || !slices.Equal(last, want) {
		t.Fatalf("%+v, want another epoch than %s, with the tail %d as its fork", info, before, tail)
	}
}

// What a start of the server means is told by its settings, or by the operator.
func TestRestartMeansWhatSettingsSay(t *testing.T) {
	for _, c := range []struct {
		name, parameter string
		config          []string
		same            bool
	}{
		{"always", "", nil, true},
		{"always, distrusted", "&restart=loses", nil, false},
		{"every second", "", []string{"--appendfsync", "everysec"}, false},
		{"every second, trusted", "&restart=keeps", []string{"--appendfsync", "everysec"}, true},
		{"settings are secret", "", []string{"--rename-command", "CONFIG", ""}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := testserver.Redis(t, &testserver.RedisOptions{Config: c.config})
			s := mustOpen(t, place(t, server)+c.parameter, nil)
			info := create(t, s, "s")
			appendN(t, s, &info, 10)
			until(t, "the system has the file", func() bool {
				return field(command(t, server, "INFO", "persistence"), "aof_buffer_length") == "0"
			})
			must(t, server.Kill())
			must(t, server.Start())
			var err error
			until(t, "the server is back", func() bool {
				err = tryOne(t, s, &info, "event")
				return !isUnavailable(err)
			})
			if c.same {
				must(t, err)
				if page := read(t, s, info.Key); page.Info.Epoch != info.Epoch || page.Info.Tail != 11 {
					t.Fatalf("after the start: %+v", page.Info)
				}
				return
			}
			wantError(t, err, reprise.ErrNotFound)
			goesOnInAnotherEpoch(t, s, &info, 10)
		})
	}
}

// A backup is put in the place of what was there. An appender that knows of more events than it has finds that out.
func TestOlderFile(t *testing.T) {
	server := testserver.Redis(t, nil)
	s := mustOpen(t, server.URL(), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 10)
	must(t, server.Kill())
	backup := filepath.Join(t.TempDir(), "backup")
	must(t, os.CopyFS(backup, os.DirFS(server.Dir())))
	must(t, server.Start())
	until(t, "the server is back", func() bool { return tryOne(t, s, &info, "lost") == nil })
	must(t, server.Kill())
	must(t, os.RemoveAll(server.Dir()))
	must(t, os.CopyFS(server.Dir(), os.DirFS(backup)))
	must(t, server.Start())
	var err error
	until(t, "the server is back", func() bool {
		err = tryOne(t, s, &info, "event")
		return !isUnavailable(err)
	})
	wantError(t, err, reprise.ErrNotFound)
	goesOnInAnotherEpoch(t, s, &info, 10)
}

// A server that gets its first replica calls its history by another id. Nothing is lost by that.
func TestFirstReplica(t *testing.T) {
	primary := testserver.Redis(t, nil)
	s := mustOpen(t, primary.URL(), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 10)
	id := command(t, primary, "INFO", "replication")
	replica := testserver.Redis(t, nil)
	follow(t, replica, primary.Addr())
	if now := command(t, primary, "INFO", "replication"); field(now, "master_replid") == field(id, "master_replid") {
		t.Error("the id of the history is the same: this tests nothing")
	}
	appendN(t, s, &info, 10)
	if page := read(t, s, info.Key); page.Info.Tail != 20 || page.Info.Epoch != info.Epoch {
		t.Errorf("after the replica has come: %+v", page.Info)
	}
}

// field is a line of what INFO says.
func field(info, name string) string {
	_, after, _ := strings.Cut(info, name+":")
	value, _, _ := strings.Cut(after, "\r\n")
	return value
}

// A server that has become a replica is not asked, since it may be behind.
func TestDemotedServer(t *testing.T) {
	primary, other := testserver.Redis(t, nil), testserver.Redis(t, nil)
	s := mustOpen(t, primary.URL(), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 3)
	host, port, _ := strings.Cut(other.Addr(), ":")
	command(t, primary, "REPLICAOF", host, port)
	_, err := s.Read(t.Context(), info.Key, 0, 1<<20)
	wantError(t, err, reprise.ErrUnavailable)
	wantError(t, tryOne(t, s, &info, "event"), reprise.ErrUnavailable)
}

// With wait=1, what no replica has is neither acknowledged nor shown.
func TestWaitForReplicaBeforeAcknowledging(t *testing.T) {
	primary, replica := pair(t)
	s := mustOpen(t, primary.URL()+"?wait=1&timeout=3s", nil)
	other := mustOpen(t, primary.URL()+"?wait=1&timeout=3s", nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 3)
	must(t, replica.Pause())
	wantError(t, tryOne(t, s, &info, "event"), reprise.ErrUnavailable)
	_, err := other.Read(t.Context(), info.Key, 0, 1<<20)
	wantError(t, err, reprise.ErrUnavailable)
	must(t, replica.Resume())
	until(t, "the replica has all", func() bool {
		page, err := other.Read(t.Context(), info.Key, 0, 1<<20)
		return err == nil && page.Info.Tail == 4
	})
	info.Tail++
	appendN(t, s, &info, 3)
}

// A trim by one who counts events that the promoted replica lacks finds the loss, and changes nothing. After a start
// that lost nothing it trims, and leaves it to an appender to know of more events.
func TestTrimAfterServerHasChanged(t *testing.T) {
	primary, replica := pair(t)
	p := newProxy(t, primary.Addr())
	s := mustOpen(t, p.url(primary.URL()), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 10)
	restart(t, primary, s)
	must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 2, Kept: 45, Epoch: info.Epoch}))
	if got := read(t, s, info.Key).Info; got.Earliest != 2 || got.Bytes != 45 || got.Epoch != info.Epoch {
		t.Errorf("after a trim and a start that lost nothing: %+v", got)
	}
	until(t, "the replica has all", func() bool {
		return field(command(t, replica, "INFO", "replication"), "slave_repl_offset") ==
			field(command(t, primary, "INFO", "replication"), "master_repl_offset") &&
			command(t, replica, "HGET", "reprise:{default/s}:state", "k") == "45"
	})
	must(t, primary.Kill())
	command(t, replica, "REPLICAOF", "NO", "ONE")
	p.redirect(replica.Addr())
	until(t, "the replica has taken over", func() bool {
		err := s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 8, Kept: 1000, Epoch: info.Epoch})
		if err != nil {
			wantError(t, err, reprise.ErrUnavailable)
		}
		return err == nil
	})
	got := read(t, s, info.Key).Info
	forked(t, got, info.Epoch, 10)
	if got.Earliest != 2 || got.Bytes != 45 {
		t.Errorf("after a trim in the epoch before: %+v", got)
	}
}

// TestTrimTrustsHistoryOnOneServer: a history that counts as that of a server does not count on another one, which may
// have been promoted since.
func TestTrimTrustsHistoryOnOneServer(t *testing.T) {
	on := testserver.Redis(t, nil)
	s := mustOpen(t, on.URL(), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 10)
	before := command(t, on, "HGET", "reprise:{default/s}:state", "h")
	restart(t, on, s)
	now := field(command(t, on, "INFO", "replication"), "master_replid")
	spec := reprise.RemoveSpec{Trim: 2, Kept: 45, Epoch: info.Epoch}
	for _, c := range []struct{ trusted, server, want string }{
		{"", "", "5"}, {before, before, "5"}, {before, "", "5"}, {now, now, "5"}, {before, now, "9"},
	} {
		code, err := s.TryTrim(t.Context(), info.Key, spec, c.trusted, c.server)
		must(t, err)
		if code != c.want {
			t.Errorf("%q trusted on %q: %s, want %s", c.trusted, c.server, code, c.want)
		}
	}
}
