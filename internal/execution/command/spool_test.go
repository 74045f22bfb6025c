package command

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// most is when a spool is full.
const most = 2 << 20

// collect drains a spool and notes what came when.
func collect(s *spool, got *[]string, took time.Duration) func() {
	began := time.Now()
	return func() {
		_ = s.drain(&Output{Write: func(chunks []Chunk) error {
			line := fmt.Sprint(time.Since(began), ":")
			for _, c := range chunks {
				line += fmt.Sprintf(" %d=%.8s/%d", c.Kind, c.Data, len(c.Data))
			}
			*got = append(*got, line)
			time.Sleep(took) // in a bubble: the time that a write takes
			return nil
		}})
	}
}

// TestSpoolJoinsChunksOfOneChannel: a single chunk is written at once. Chunks that arrive right after it, or while a
// write is under way, are written together, joined where they are of one channel.
func TestSpoolJoinsChunksOfOneChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		s := newSpool(most)
		go collect(s, &got, 0)()
		add := func(kind Kind, text string) { s.add(kind, []byte(text)) }
		add(Stdout, "a")
		synctest.Wait()
		for _, text := range []string{"b", "c"} {
			add(Stdout, text)
			time.Sleep(writeEvery / 4)
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
			"0s: 2=a/1",
			"2ms: 2=bc/2 3=d/1 2=e/1",
			"1.001s: 2=f/1",
			"1.001s: 2=g/1",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// TestFullSpoolBlocksWriters: a writer to a full spool waits until the spool has room, and the wait is measured. No
// chunk and no write exceeds its bound.
func TestFullSpoolBlocksWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(most)
		chunk := bytes.Repeat([]byte("x"), chunkBytes)
		const chunks = 4 * most / chunkBytes
		go func() {
			for range chunks {
				s.add(Stdout, chunk)
			}
			s.close()
		}()
		total, sizes := 0, []int{}
		var stalled time.Duration
		_ = s.drain(&Output{Stalled: func(d time.Duration) { stalled += d }, Write: func(chunks []Chunk) error {
			size := 0
			for _, c := range chunks {
				if len(c.Data) > chunkBytes {
					t.Errorf("a chunk of %d bytes", len(c.Data))
				}
				size += len(c.Data)
			}
			if size > WriteBytes {
				t.Errorf("a write of %d bytes", size)
			}
			s.mu.Lock()
			if len(s.filling.buf) > most {
				t.Errorf("%d bytes wait", len(s.filling.buf))
			}
			s.mu.Unlock()
			total, sizes = total+size, append(sizes, size)
			time.Sleep(time.Second)
			return nil
		}})
		if total != chunks*chunkBytes {
			t.Errorf("%d bytes in %v, want %d", total, sizes, chunks*chunkBytes)
		}
		if stalled < time.Second {
			t.Errorf("the wait of %s", stalled)
		}
	})
}

// TestAbandonedSpoolReleasesWriters: writers that wait are released, and later ones do not wait.
func TestAbandonedSpoolReleasesWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(most)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 200 {
				s.add(Stdout, make([]byte, chunkBytes))
			}
		}()
		synctest.Wait()
		s.abandon()
		<-done
		write := func([]Chunk) error { t.Error("something is written"); return nil }
		if err := s.drain(&Output{Write: write}); err != nil {
			t.Error(err)
		}
	})
}
