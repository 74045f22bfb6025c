package sqlitestore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/store/sqlitestore"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("SQLITESTORE_WRITER"); path != "" {
		writeUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}

// On a full disk appends fail, reads go on, and appends work again when there is space.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, 12<<20)
	ballast := filepath.Join(dir, "ballast")
	write(t, ballast, strings.Repeat("x", 4<<20))
	s := mustOpen(t, filepath.Join(dir, "events.db"), &sqlitestore.Options{FoldBytes: 1 << 20})
	small, large := create(t, s, "small"), create(t, s, "large")
	data := bytes.Repeat([]byte("x"), 100<<10)
	for range 3 { // it gets full again and again
		var full error
		for range 1000 {
			if full = errors.Join(appendOne(s, &large, data), appendOne(s, &small, []byte("small"))); full != nil {
				break
			}
		}
		if !errors.Is(full, reprise.DiskFull) || !errors.Is(full, reprise.ErrUnavailable) {
			t.Fatalf("a full disk gives %v", full)
		}
		for range 20 {
			if err := appendOne(s, &large, data); err != nil && !errors.Is(err, reprise.DiskFull) {
				t.Fatalf("while full: %v", err)
			}
		}
		for _, info := range []*reprise.StreamInfo{&small, &large} {
			page, err := s.Read(t.Context(), info.Key, 0, 1<<30)
			if err != nil || page.Info.Tail != info.Tail || len(page.Batches) != int(info.Tail) {
				t.Fatalf("read on a full disk: tail %d of %d, %v", page.Info.Tail, info.Tail, err)
			}
		}
		stat, err := os.Stat(ballast)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(ballast, stat.Size()-1<<20); err != nil {
			t.Fatal(err)
		}
		if err := appendOne(s, &small, []byte("again")); err != nil {
			t.Fatalf("with space again: %v", err)
		}
	}
	if wrong, err := s.Check(t.Context()); err != nil || len(wrong) > 0 {
		t.Errorf("check: %q, %v", wrong, err)
	}
}

// A file that cannot be written to is refused with the reason, not as an outage that may pass.
func TestReadOnly(t *testing.T) {
	dir := smallDisk(t, 4<<20)
	path := filepath.Join(dir, "events.db")
	refused := func(what string) {
		t.Helper()
		s, err := sqlitestore.Open(t.Context(), path, nil)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, sqlitestore.ErrReadOnly) || errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrReadOnly", what, err)
		}
	}
	remount(t, dir, true)
	refused("an empty folder")
	remount(t, dir, false)
	closeStore(t, path)
	remount(t, dir, true)
	refused("a folder with a file")
	remount(t, dir, false)
	mustOpen(t, path, nil)
}

const (
	killRounds    = 25
	writerStreams = 3
)

// What was acknowledged before a SIGKILL is there afterwards, once, and in order.
func TestKilledAtAnyMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	acknowledged := make([]uint64, writerStreams)
	for round := range killRounds {
		writeAndKill(t, path, acknowledged, round%2 == 0)
		s, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatalf("open after a kill: %v", err)
		}
		for i := range acknowledged {
			acknowledged[i] = checkWritten(t, s, i, acknowledged[i])
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := acknowledged[0] + acknowledged[1] + acknowledged[2]; n < killRounds/2 {
		t.Errorf("only %d events in %d rounds: the writer hardly ran", n, killRounds)
	}
}

// writeAndKill runs a process that writes, and kills it at a random moment. It notes what
// was acknowledged. With later it does so only when something was.
func writeAndKill(t *testing.T, path string, acknowledged []uint64, later bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SQLITESTORE_WRITER="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan() // it has opened the file
	note := func() bool {
		more := lines.Scan()
		var stream int
		var tail uint64
		if n, _ := fmt.Sscanf(lines.Text(), "%d %d.", &stream, &tail); n == 2 && strings.HasSuffix(lines.Text(), ".") {
			acknowledged[stream] = tail
		}
		return more
	}
	if later {
		note()
	}
	kill := time.AfterFunc(time.Duration(rand.Int64N(int64(80*time.Millisecond))), func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	for note() {
	}
	_ = cmd.Wait()
}

// checkWritten checks a stream and returns its tail.
func checkWritten(t *testing.T, s reprise.Store, stream int, acknowledged uint64) uint64 {
	t.Helper()
	var next uint64 = 1
	for {
		page, err := s.Read(t.Context(), writerKey(stream), next-1, 1<<20)
		if errors.Is(err, reprise.ErrNotFound) && acknowledged == 0 {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Batches) == 0 {
			break
		}
		for _, b := range page.Batches {
			if want := written(stream, b.First); b.First != next || !bytes.Equal(b.Bytes, want) {
				t.Fatalf("stream %d: batch %d where %d should be, %d bytes", stream, b.First, next, len(b.Bytes))
			}
			next = b.Last() + 1
		}
	}
	if next-1 < acknowledged {
		t.Fatalf("stream %d ends with %d, and %d was acknowledged", stream, next-1, acknowledged)
	}
	return next - 1
}

func writerKey(stream int) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprint("s", stream)}
}

// written is the batch with seq first: mostly small, now and then a large one.
func written(stream int, first uint64) []byte {
	size := 50
	if first%7 == 0 {
		size = 20 << 10
	}
	return bytes.Repeat(fmt.Append(nil, stream, ":", first, " "), size/4)
}

// writeUntilKilled is the process of writeAndKill. It folds all the time.
func writeUntilKilled(path string) {
	ctx := context.Background()
	s, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{FoldBytes: 64 << 10, FoldAfter: 5 * time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		os.Exit(1)
	}
	infos := make([]reprise.StreamInfo, writerStreams)
	for i := range infos {
		infos[i], err = s.Create(ctx,
			reprise.StreamInfo{Key: writerKey(i), Epoch: reprise.NewEpoch(), Created: time.Now()})
		if err != nil {
			fmt.Fprintln(os.Stderr, "writer:", err)
			os.Exit(1)
		}
	}
	fmt.Println("open")
	for {
		reqs := make([]reprise.AppendRequest, len(infos))
		for i := range infos {
			reqs[i] = one(&infos[i], written(i, infos[i].Tail+1))
		}
		if errs := s.Append(ctx, reqs); errs != nil {
			fmt.Fprintln(os.Stderr, "writer:", errs)
			os.Exit(1)
		}
		for i := range infos {
			fmt.Printf("%d %d.\n", i, infos[i].Tail)
		}
	}
}
