package redisstore_test

import (
	"strconv"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/testserver"
)

// TestReadTakesLittleMoreThanThePage reads the beginning of a stream whose first batches are much smaller than the
// others, as they are if one writer begins and many follow.
func TestReadTakesLittleMoreThanThePage(t *testing.T) {
	const small, large, page = 8, 400, 256 << 10
	on := testserver.Redis(t, &testserver.RedisOptions{Config: []string{"--appendonly", "no"}})
	s := mustOpen(t, place(t, on), nil)
	info := create(t, s, "s")
	write(t, s, &info, small, 10)
	write(t, s, &info, large, 32<<10)
	for _, maxBytes := range []int{1, page, 4 * page, page} { // the first one is that of marker.Check
		before := sent(t, on)
		got, err := s.Read(t.Context(), info.Key, 0, maxBytes)
		must(t, err)
		if most := 4*page + 4*maxBytes; sent(t, on)-before > most {
			t.Errorf("the server sent %d bytes for a page of %d, want at most %d", sent(t, on)-before, maxBytes, most)
		}
		if n := len(got.Batches); n < 1 || got.Batches[0].First != 1 || got.Batches[n-1].Last() != uint64(n) {
			t.Errorf("a page of %d bytes has %d batches, want those from 1 on", maxBytes, n)
		}
	}
}

// TestReadNeedsNoScriptForSmallBatches reads pages that take more than one request.
func TestReadNeedsNoScriptForSmallBatches(t *testing.T) {
	const events, page = 6000, 256 << 10
	on := testserver.Redis(t, &testserver.RedisOptions{Config: []string{"--appendonly", "no"}})
	s := mustOpen(t, place(t, on), nil)
	info := create(t, s, "s")
	write(t, s, &info, events, 100)
	before := scripts(t, on)
	for after := uint64(0); after < events; {
		got, err := s.Read(t.Context(), info.Key, after, page)
		must(t, err)
		for i := range got.Batches {
			if got.Batches[i].First != after+1 {
				t.Fatalf("%d came after %d", got.Batches[i].First, after)
			}
			after = got.Batches[i].Last()
		}
	}
	if n := scripts(t, on) - before; n != 0 {
		t.Errorf("%d scripts ran", n)
	}
}

// write appends so many batches of one event each.
func write(t *testing.T, s reprise.Store, info *reprise.StreamInfo, batches, size int) {
	t.Helper()
	data := []byte(strings.Repeat("x", size))
	for range batches {
		if errs := s.Append(t.Context(), []reprise.AppendRequest{one(info, data)}); errs != nil {
			t.Fatal(errs)
		}
	}
}

// sent returns how many bytes the server has sent.
func sent(t *testing.T, on *testserver.RedisServer) int {
	t.Helper()
	return number(t, on, "stats", "total_net_output_bytes:")
}

// scripts returns how many scripts that read have run.
func scripts(t *testing.T, on *testserver.RedisServer) int {
	t.Helper()
	return number(t, on, "commandstats", "cmdstat_evalsha_ro:calls=")
}

// number returns the number after name in a section of INFO.
func number(t *testing.T, on *testserver.RedisServer, section, name string) int {
	t.Helper()
	text, err := on.Command("INFO", section)
	must(t, err)
	_, after, _ := strings.Cut(text, name)
	n, err := strconv.Atoi(after[:strings.IndexFunc(after+"\r", func(r rune) bool { return r < '0' || r > '9' })])
	must(t, err)
	return n
}
