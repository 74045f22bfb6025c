package execution

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
)

// collect drains a spool and notes what came when.
func collect(s *spool, got *[]string, took time.Duration) func() {
	began := time.Now()
	return func() {
		_ = s.drain(func(events []reprise.Event) error {
			line := fmt.Sprint(time.Since(began), ":")
			for _, e := range events {
				line += fmt.Sprintf(" %s=%.8s/%d", e.Type, e.Data, len(e.Data))
			}
			*got = append(*got, line)
			time.Sleep(took) // in a bubble: the time that an append takes
			return nil
		})
	}
}

// TestSpoolJoinsChunksOfOneChannel: a single chunk is appended at once. Chunks that arrive right after it, or while an
// append is under way, are appended together, one event for each run of one channel.
func TestSpoolJoinsChunksOfOneChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		s := newSpool()
		go collect(s, &got, 0)()
		add := func(channel, text string) { s.add(channel, reprise.FormatBytes, []byte(text)) }
		add(Stdout, "a")
		synctest.Wait()
		for _, text := range []string{"b", "c"} {
			add(Stdout, text)
			time.Sleep(appendEvery / 4)
		}
		add(Stderr, "d")
		add(Stdout, "e")
		time.Sleep(time.Second)
		add(Stdout, "f")
		synctest.Wait()
		add(Stdout, "g")
		s.close()
		synctest.Wait()
		want := []string{
			"0s: stdout=a/1",
			"2ms: stdout=bc/2 stderr=d/1 stdout=e/1",
			"1.001s: stdout=f/1",
			"1.001s: stdout=g/1",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// TestFullSpoolBlocksWriters: a writer to a full spool waits until the spool has room, and the wait is measured. No
// event and no append exceeds its bound.
func TestFullSpoolBlocksWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool()
		chunk := bytes.Repeat([]byte("x"), chunkBytes)
		const chunks = 4 * spoolBytes / chunkBytes
		go func() {
			for range chunks {
				s.add(Stdout, reprise.FormatBytes, chunk)
			}
			s.close()
		}()
		total, sizes := 0, []int{}
		_ = s.drain(func(events []reprise.Event) error {
			size := 0
			for _, e := range events {
				if len(e.Data) > chunkBytes {
					t.Errorf("an event of %d bytes", len(e.Data))
				}
				size += len(e.Data)
			}
			if size > appendBytes {
				t.Errorf("an append of %d bytes", size)
			}
			s.mu.Lock()
			if len(s.filling.buf) > spoolBytes {
				t.Errorf("%d bytes wait", len(s.filling.buf))
			}
			s.mu.Unlock()
			total, sizes = total+size, append(sizes, size)
			time.Sleep(time.Second)
			return nil
		})
		if total != chunks*chunkBytes {
			t.Errorf("%d bytes in %v, want %d", total, sizes, chunks*chunkBytes)
		}
		if d := s.stall(); d < time.Second {
			t.Errorf("the wait of %s", d)
		}
	})
}

// TestAbandonedSpoolReleasesWriters: writers that wait are released, and later ones do not wait.
func TestAbandonedSpoolReleasesWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 200 {
				s.add(Stdout, reprise.FormatBytes, make([]byte, chunkBytes))
			}
		}()
		synctest.Wait()
		s.abandon()
		<-done
		if err := s.drain(func([]reprise.Event) error { t.Error("something is written"); return nil }); err != nil {
			t.Error(err)
		}
	})
}
