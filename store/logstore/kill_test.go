package logstore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"reprise"
)

// killedDir names the directory in which a process of TestKilledAtAnyMoment writes until it is killed.
const killedDir = "REPRISE_TEST_KILLED_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// killedStreams is how many streams a process writes to. All but the first keep their newest events alone, so that
// segments die and are copied.
const killedStreams = 8

func killedKey(n int) reprise.StreamKey { return testKey(fmt.Sprint("s", n)) }

// killedBytes is the content of an event.
func killedBytes(n int, seq uint64) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("event %d of stream %d\n", seq, n)), 1+int(seq)%40)
}

// TestKilledAtAnyMoment kills a process that creates, appends, trims and copies, again and again. All that it has
// acknowledged is there. KILLS is the number of kills. Every other process is killed only once it has acknowledged
// something, so that a slow machine does not end all of them while they open the store.
func TestKilledAtAnyMoment(t *testing.T) {
	kills := 10
	if text := os.Getenv("KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "log")
	acknowledged := make([]uint64, killedStreams)
	var events uint64
	for kill := range kills {
		writeAndKill(t, dir, acknowledged, kill%2 == 0)
		s, err := Open(t.Context(), dir, &Options{SegmentBytes: minSegmentBytes})
		if err != nil {
			t.Fatal(err)
		}
		events = 0
		for n, least := range acknowledged {
			page, err := s.Read(t.Context(), killedKey(n), 0, 1<<30)
			if errors.Is(err, reprise.ErrNotFound) && least == 0 {
				continue
			}
			if err != nil || page.Info.Tail < least {
				t.Fatalf("stream %d ends with %d, %v, and %d were acknowledged", n, page.Info.Tail, err, least)
			}
			for i, b := range page.Batches {
				if seq := page.Info.Earliest + uint64(i); b.First != seq || !bytes.Equal(b.Bytes, killedBytes(n, seq)) {
					t.Fatalf("stream %d has %q as event %d, in the place of %d", n, b.Bytes, b.First, seq)
				}
			}
			if kept := page.Info.Kept(); int(kept) != len(page.Batches) {
				t.Fatalf("stream %d has %d batches for %d events", n, len(page.Batches), kept)
			}
			events += page.Info.Tail
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, %d events", kills, events)
	if events == 0 {
		t.Error("nothing was ever written")
	}
}

// writeAndKill runs a process that writes, and kills it at a random moment: of its life, or with written of the time
// after its first acknowledgement. It notes what was acknowledged.
func writeAndKill(t *testing.T, dir string, acknowledged []uint64, written bool) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var failed bytes.Buffer
	cmd := exec.Command(program)
	cmd.Env, cmd.Stderr = append(os.Environ(), killedDir+"="+dir), &failed
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	after := time.Duration(rand.Int64N(int64(120 * time.Millisecond)))
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	if written {
		kill.Stop()
	}
	defer kill.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if written {
			kill.Reset(after)
			written = false
		}
		var n int
		var seq uint64
		if _, err := fmt.Sscan(lines.Text(), &n, &seq); err == nil {
			acknowledged[n] = seq
		}
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.Exited() {
		t.Fatalf("%v: %s", err, &failed)
	}
}

// writeUntilKilled is the process of writeAndKill. It prints what is acknowledged.
func writeUntilKilled(dir string) error {
	s, err := Open(bg, dir, &Options{SegmentBytes: minSegmentBytes})
	if err != nil {
		return err
	}
	tails := make([]uint64, killedStreams)
	for n := range tails {
		info, err := s.Create(bg, reprise.StreamInfo{Key: killedKey(n), Epoch: "e", Created: day(1)})
		if err != nil {
			return err
		}
		tails[n] = info.Tail
	}
	for {
		var reqs []reprise.AppendRequest
		for n, tail := range tails {
			req := reprise.AppendRequest{
				Key: killedKey(n), Epoch: "e", First: tail + 1, Count: 1, Bytes: killedBytes(n, tail+1), Earliest: 1,
				Kept: 1,
			}
			if n > 0 { // the others keep the newest 300 of theirs
				req.Earliest = max(1, req.First-min(req.First, 300))
			}
			reqs = append(reqs, req)
		}
		if errs := s.Append(bg, reqs); errs != nil {
			return errors.Join(errs...)
		}
		for n := range tails {
			tails[n]++
			fmt.Println(n, tails[n])
		}
	}
}
