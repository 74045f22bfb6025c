package enginetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
)

// TestReaderContract: what Poll, Next and Changed say at each place of a stream.
func TestReaderContract(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	r := openReader(t, s, reprise.Earliest())
	if run, err := r.Poll(t.Context()); err != nil || run.Len() != 0 {
		t.Errorf("of an empty stream: %d events, %v", run.Len(), err)
	}
	changed := r.Changed()
	if closed(changed) {
		t.Error("an empty stream has changed")
	}
	add(t, s, numbered(1, 3)...)
	<-changed
	run, err := r.Next(t.Context())
	check(t, err)
	if run.Len() != 3 || run.First() != 1 || run.Last() != 3 || r.Cursor() != s.Cursor(3) {
		t.Errorf("%d events, %d to %d, cursor %v", run.Len(), run.First(), run.Last(), r.Cursor())
	}
	changed = r.Changed()
	if closed(changed) {
		t.Error("a stream that was read has changed")
	}
	end(t, s)
	<-changed
	run, err = r.Poll(t.Context())
	check(t, err)
	if run.First() != 4 {
		t.Errorf("the end is event %d", run.First())
	}
	for range 2 {
		if !closed(r.Changed()) {
			t.Error("who waits at the end waits for ever")
		}
		_, err = r.Poll(t.Context())
		wantError(t, err, reprise.ErrEnded)
		_, err = r.Next(t.Context())
		wantError(t, err, reprise.ErrEnded)
	}
	check(t, r.Seek(reprise.After(s.Cursor(2))))
	events, ended := drain(t, r)
	if !ended || len(events) != 2 || events[0].Seq != 3 {
		t.Errorf("after Seek: %d events, ended %v", len(events), ended)
	}
	windowError(t, r.Seek(reprise.After(s.Cursor(5))), reprise.CursorAhead)
	if r.Cursor() != s.Cursor(4) {
		t.Error("a refused Seek has moved the reader")
	}
	if r.Stream().Key() != named("s") || r.Info().Tail != 4 {
		t.Errorf("it reads %v to %d", r.Stream().Key(), r.Info().Tail)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestReaderEvents(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	add(t, s, numbered(1, 5)...)
	r := openReader(t, s, reprise.After(s.Cursor(1)))
	for e, err := range r.Events(t.Context()) {
		check(t, err)
		if r.Cursor() != s.Cursor(e.Seq) {
			t.Errorf("at event %d the cursor is %v", e.Seq, r.Cursor())
		}
		if e.Seq == 3 {
			break
		}
	}
	end(t, s)
	var seqs []uint64
	for e, err := range r.Events(t.Context()) {
		check(t, err)
		seqs = append(seqs, e.Seq)
	}
	if fmt.Sprint(seqs) != "[4 5 6]" {
		t.Errorf("after a break it goes on with %v", seqs)
	}
	ctx, cause := aborted(t)
	tail := openReader(t, create(t, log, "other", reprise.Retention{}), reprise.Tail())
	yielded := 0
	for _, err := range tail.Events(ctx) {
		yielded++
		wantError(t, err, cause)
	}
	if yielded != 1 {
		t.Errorf("%d errors were yielded", yielded)
	}
}

// TestWaitingReadersAreToldWhyTheyEnd: each waiting reader returns at once with the reason.
func TestWaitingReadersAreToldWhyTheyEnd(t *testing.T) {
	cause := errors.New("enough")
	for _, c := range []struct {
		name string
		do   func(*reprise.Log, *reprise.Reader, context.CancelCauseFunc) error
		want error
	}{
		{
			"Reader.Close",
			func(_ *reprise.Log, r *reprise.Reader, _ context.CancelCauseFunc) error { return r.Close() },
			reprise.ErrClosed,
		},
		{
			"Log.Close", func(l *reprise.Log, _ *reprise.Reader, _ context.CancelCauseFunc) error { return l.Close() },
			reprise.ErrClosed,
		},
		{"Remove", func(l *reprise.Log, r *reprise.Reader, _ context.CancelCauseFunc) error {
			return l.Remove(context.Background(), r.Stream().Key())
		}, reprise.ErrNotFound},
		{"cancel", func(_ *reprise.Log, _ *reprise.Reader, cancel context.CancelCauseFunc) error {
			cancel(cause)
			return nil
		}, cause},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := openLog(t, memory(t), nil)
			s := create(t, log, "s", reprise.Retention{})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			readers := make([]*reprise.Reader, 20)
			got := make(chan error, len(readers))
			for i := range readers {
				readers[i] = openReader(t, s, reprise.Tail())
				go func() {
					_, err := readers[i].Next(ctx)
					got <- err
				}()
			}
			for _, r := range readers {
				check(t, c.do(log, r, cancel))
			}
			for range readers {
				wantError(t, <-got, c.want)
			}
			for _, r := range readers {
				check(t, r.Close())
			}
		})
	}
}

// TestCloseWakesNoOtherReader: a reader that waits is woken by its own Close and by no other's.
func TestCloseWakesNoOtherReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, memory(t), nil)
		s := create(t, log, "s", reprise.Retention{})
		r, other := openReader(t, s, reprise.Earliest()), openReader(t, s, reprise.Earliest())
		changed := other.Changed()
		done := make(chan error)
		go func() {
			_, err := r.Next(t.Context())
			done <- err
		}()
		synctest.Wait() // until Next waits
		check(t, r.Close())
		if err := <-done; !errors.Is(err, reprise.ErrClosed) {
			t.Errorf("Next of the closed reader: %v", err)
		}
		if closed(changed) {
			t.Error("the other reader was woken")
		}
		if !closed(r.Changed()) {
			t.Error("the closed reader still waits")
		}
		add(t, s, text("x"))
		<-changed
	})
}

// TestThousandReaders: each gets everything in order, and they are woken, not polling.
func TestThousandReaders(t *testing.T) {
	const readers, events = 1000, 60
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	var wg sync.WaitGroup
	var started sync.WaitGroup
	var polls atomic.Int64
	started.Add(readers)
	for range readers {
		r := openReader(t, s, reprise.Earliest())
		wg.Go(func() {
			started.Done()
			next := uint64(1)
			for {
				changed := r.Changed()
				run, err := r.Poll(t.Context())
				polls.Add(1)
				if errors.Is(err, reprise.ErrEnded) {
					break
				}
				for e := range run.All() {
					if e.Seq != next {
						t.Errorf("event %d, want %d: %v", e.Seq, next, err)
						return
					}
					next++
				}
				if err != nil {
					t.Error(err)
					return
				}
				if run.Len() == 0 {
					<-changed
				}
			}
			if next != events+2 {
				t.Errorf("the end came before event %d", next)
			}
		})
	}
	started.Wait()
	for i := range events {
		add(t, s, numbered(i+1, 1)...)
	}
	end(t, s)
	wg.Wait()
	if most := int64(readers * 2 * (events + 2)); polls.Load() > most {
		t.Errorf("%d polls, at most %d are of use", polls.Load(), most)
	}
	// Whoever has gone makes room: the bound is on those who are there.
	for range 3 {
		check(t, openReader(t, s, reprise.Tail()).Close())
	}
}

func TestReaderLimit(t *testing.T) {
	opened, refused, gone := 0, 0, 0
	log := openLog(t, memory(t), &reprise.Options{MaxReaders: 3, Hooks: &reprise.Hooks{
		ReaderOpened: func(_ reprise.StreamKey, err error) {
			if opened++; err != nil {
				refused++
			}
		},
		ReaderClosed: func(reprise.StreamKey) { gone++ },
	}})
	s, other := create(t, log, "s", reprise.Retention{}), create(t, log, "other", reprise.Retention{})
	var last *reprise.Reader
	for range 3 {
		last = openReader(t, s, reprise.Earliest())
	}
	_, err := s.Reader(t.Context(), reprise.Earliest())
	wantError(t, err, reprise.ErrTooManyReaders)
	openReader(t, other, reprise.Earliest()) // the bound is that of a stream
	check(t, last.Close())
	check(t, last.Close()) // once
	openReader(t, s, reprise.Earliest())
	_, err = s.Reader(t.Context(), reprise.Earliest())
	wantError(t, err, reprise.ErrTooManyReaders)
	if opened != 7 || refused != 2 || gone != 1 {
		t.Errorf("hooks: %d asked, %d refused, %d closed", opened, refused, gone)
	}
}

// TestLagOfAReaderIsTold: a page that comes from the store says how far behind its reader was.
func TestLagOfAReaderIsTold(t *testing.T) {
	var lags []uint64
	store := memory(t)
	writer := openLog(t, store, nil)
	add(t, create(t, writer, "s", reprise.Retention{}), numbered(1, 30)...)
	check(t, writer.Close())
	log := openLog(t, store, &reprise.Options{Hooks: &reprise.Hooks{
		StoreRead: func(r reprise.ReadInfo) {
			if r.Events > 0 && r.Err == nil {
				lags = append(lags, r.Lag)
			}
		},
	}})
	s, err := log.Stream(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"})
	check(t, err)
	_, err = openReader(t, s, reprise.After(s.Cursor(4))).Poll(t.Context())
	check(t, err)
	if len(lags) == 0 || lags[0] != 26 {
		t.Errorf("lags %v, want 26 at first", lags)
	}
}

// lines and marks are two encoders.
type (
	lines struct{}
	marks struct{ mark string }
)

func (lines) AppendEvent(dst []byte, e *reprise.Event, suffix string) []byte {
	dst = strconv.AppendUint(dst, e.Seq, 10)
	return append(append(append(append(dst, suffix...), ' '), e.Data...), '\n')
}

func (m marks) AppendEvent(dst []byte, e *reprise.Event, _ string) []byte {
	return append(append(dst, m.mark...), e.Data...)
}

// TestEncodedFormIsTheSameForAllReaders: the wire form is that of the events, whoever asks first, hot or cold, and
// stays as it is while others go on.
func TestEncodedFormIsTheSameForAllReaders(t *testing.T) {
	for _, tailBytes := range []int{1, 1 << 20} {
		log := openLog(t, memory(t), &reprise.Options{TailBytes: tailBytes})
		s := create(t, log, "s", reprise.Retention{})
		suffix := s.Cursor(0).String()[1:]
		type piece struct{ got, want []byte }
		var pieces []piece
		r := openReader(t, s, reprise.Earliest())
		for i := 1; i <= 400; i += 2 {
			add(t, s, numbered(i, 2)...)
			at := openReader(t, s, reprise.After(s.Cursor(uint64(i/2))))
			for _, reader := range []*reprise.Reader{r, at} {
				run, err := reader.Poll(t.Context())
				check(t, err)
				var want, marked []byte
				for e := range run.All() {
					want = lines{}.AppendEvent(want, &e, suffix)
					marked = marks{"m"}.AppendEvent(marked, &e, suffix)
				}
				var written bytes.Buffer
				check(t, run.WriteEncoded(struct{ io.Writer }{&written}, lines{}))
				pieces = append(pieces, piece{run.Encoded(lines{}), want}, piece{run.Encoded(marks{"m"}), marked},
					piece{written.Bytes(), want})
			}
			check(t, at.Close())
		}
		for i, p := range pieces {
			if !bytes.Equal(p.got, p.want) {
				t.Fatalf("piece %d is\n%s\nwant\n%s", i, p.got, p.want)
			}
		}
	}
	if len((reprise.Events{}).Encoded(lines{})) != 0 {
		t.Error("an empty run has a wire form")
	}
}

// slowMarks is an encoder that waits in AppendEvent.
type slowMarks struct{ reached, pass chan struct{} }

func (m slowMarks) AppendEvent(dst []byte, _ *reprise.Event, _ string) []byte {
	m.reached <- struct{}{}
	<-m.pass
	return dst
}

// TestEncodingInAnotherFormDelaysNobody: readers of the form that a block has do not wait for those of another one.
func TestEncodingInAnotherFormDelaysNobody(t *testing.T) {
	s := create(t, openLog(t, memory(t), nil), "s", reprise.Retention{})
	add(t, s, numbered(1, 1)...)
	run, err := openReader(t, s, reprise.Earliest()).Poll(t.Context())
	check(t, err)
	want := run.Encoded(lines{})
	slow := slowMarks{make(chan struct{}), make(chan struct{})}
	var others sync.WaitGroup
	others.Go(func() { run.Encoded(slow) })
	<-slow.reached
	patience := time.AfterFunc(30*time.Second, func() { close(slow.pass) })
	if got := run.Encoded(lines{}); !bytes.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if patience.Stop() {
		close(slow.pass)
	} else {
		t.Error("a reader waited until another one had encoded the event in its form")
	}
	others.Wait()
}

// TestHistoryIsEncodedIntoBufferOfWriter: the bytes are those of Encoded, whatever the sizes of the buffer and of the
// events.
func TestHistoryIsEncodedIntoBufferOfWriter(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{TailBytes: 1})
	s := create(t, log, "s", reprise.Retention{})
	for _, size := range []int{10, 100, 20_000, 3, 200_000, 50} {
		for i := range 10 {
			add(t, s, reprise.Event{Type: "message", Data: fmt.Appendf(nil, `"%0*d"`, size, i)})
		}
	}
	for _, size := range []int{16, 1 << 10, 9 << 10, 128 << 10} {
		r := openReader(t, s, reprise.Earliest())
		var want, got bytes.Buffer
		w := bufio.NewWriterSize(struct{ io.Writer }{&got}, size)
		for r.Cursor().Seq < 60 {
			run, err := r.Poll(t.Context())
			check(t, err)
			want.Write(run.Encoded(lines{}))
			check(t, run.WriteEncoded(w, lines{}))
		}
		check(t, w.Flush())
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("through a buffer of %d bytes came %d bytes, want the %d of Encoded", size, got.Len(), want.Len())
		}
	}
}

// TestPollMemory: it returns what Poll would, but reads nothing from the store, and nothing that is too large.
func TestPollMemory(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{TailBytes: 4 << 10})
	s := create(t, log, "s", reprise.Retention{})
	r := openReader(t, s, reprise.Earliest())
	want := func(events int, ok bool, err error) {
		t.Helper()
		before := r.Cursor()
		got, gotOK, gotErr := r.PollMemory(8 << 10)
		if got.Len() != events || gotOK != ok || !errors.Is(gotErr, err) {
			t.Fatalf("%d events, %v, %v; want %d, %v, %v", got.Len(), gotOK, gotErr, events, ok, err)
		}
		if moved := r.Cursor().Seq - before.Seq; moved != uint64(events) {
			t.Errorf("moved by %d, want %d", moved, events)
		}
	}
	want(0, true, nil)
	add(t, s, numbered(1, 3)...)
	want(3, true, nil)
	add(t, s, reprise.Event{Data: make([]byte, 10<<10)})
	want(0, false, nil)
	_, err := r.Next(t.Context())
	check(t, err)
	for i := range 100 {
		add(t, s, reprise.Event{Data: make([]byte, 200)}, numbered(i, 1)[0])
	}
	want(0, false, nil) // the oldest of them are only in the store
	check(t, r.Seek(reprise.Tail()))
	end(t, s)
	want(1, true, nil)
	want(0, true, reprise.ErrEnded)
}

// TestNotify: a reader is notified once, and not if it has taken that back, is closed, or has something to poll.
func TestNotify(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	r, quiet := openReader(t, s, reprise.Earliest()), openReader(t, s, reprise.Earliest())
	called := make(chan string, 3)
	if !r.Notify(func() { called <- "reader" }) || !quiet.Notify(func() { called <- "quiet" }) || !quiet.Notify(nil) {
		t.Fatal("an empty stream has something to poll")
	}
	add(t, s, numbered(1, 1)...)
	if got := <-called; got != "reader" {
		t.Errorf("%s was notified", got)
	}
	if r.Notify(func() { called <- "early" }) {
		t.Error("a reader with an event to poll waits")
	}
	_, err := r.Next(t.Context())
	check(t, err)
	if !r.Notify(func() { called <- "again" }) {
		t.Error("a reader at the tail does not wait")
	}
	check(t, log.Close())
	if got := <-called; got != "again" {
		t.Errorf("%s was notified", got)
	}
	if len(called) > 0 || r.Notify(func() {}) {
		t.Error("notified once more, or of a closed Log")
	}
}

// countingReads is a Store that counts pages, and fails one of them.
type countingReads struct {
	reprise.Store
	pages atomic.Int64
	fails atomic.Int64 // the number of the page that fails
}

func (c *countingReads) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (reprise.Page, error) {
	if maxBytes > 0 && c.pages.Add(1) == c.fails.Load() {
		return reprise.Page{}, errFault
	}
	return c.Store.Read(ctx, key, after, maxBytes)
}

const coldEvents = 6000

// coldStream is a stream of 6 MB of which nothing is in memory.
func coldStream(t *testing.T) (*reprise.Stream, *countingReads) {
	t.Helper()
	store := &countingReads{Store: memory(t)}
	first, err := reprise.Open(t.Context(), store, nil)
	check(t, err)
	s := createOn(t, first, "s")
	for range coldEvents / 100 {
		batch := make([]reprise.Event, 100)
		for i := range batch {
			batch[i].Data = bytes.Repeat([]byte("x"), 1000)
		}
		_, err := s.Append(t.Context(), batch...)
		check(t, err)
	}
	_, err = s.End(t.Context(), "completed", reprise.Event{})
	check(t, err)
	check(t, first.Close())
	log := openLog(t, store, nil)
	s, err = log.Stream(t.Context(), s.Key())
	check(t, err)
	store.pages.Store(0) // Open has looked at the wrappers
	return s, store
}

// follow reads from seq on, and returns what came.
func follow(t *testing.T, r *reprise.Reader, next uint64) (uint64, error) {
	t.Helper()
	for {
		run, err := r.Poll(t.Context())
		if err != nil {
			return next, err
		}
		for e := range run.All() {
			if e.Seq != next {
				t.Fatalf("event %d, want %d", e.Seq, next)
			}
			next++
		}
	}
}

// TestLongReplay: all pages of a long replay come once and in order, also when one that is read in advance fails.
func TestLongReplay(t *testing.T) {
	for _, fails := range []int64{0, 1, 3, 4} {
		s, store := coldStream(t)
		store.fails.Store(fails)
		r, err := s.Reader(t.Context(), reprise.Earliest())
		check(t, err)
		next, err := follow(t, r, 1)
		if fails == 1 { // that one was not read in advance: the reader is told, and may try again
			if !errors.Is(err, reprise.ErrUnavailable) {
				t.Errorf("the first page fails: %v", err)
			}
			next, err = follow(t, r, next)
		}
		if !errors.Is(err, reprise.ErrEnded) || next != coldEvents+2 {
			t.Errorf("page %d fails: up to event %d, then %v", fails, next-1, err)
		}
		if pages := store.pages.Load(); pages > 12 {
			t.Errorf("%d pages were read for 6 MB", pages)
		}
		check(t, r.Close())
	}
}

// TestLongReplayMeetsAGap: what was trimmed while its page was being read in advance is a gap all the same.
func TestLongReplayMeetsAGap(t *testing.T) {
	s, _ := coldStream(t)
	r, err := s.Reader(t.Context(), reprise.Earliest())
	check(t, err)
	defer r.Close()
	var next uint64 = 1
	for next < 600 { // into the third page, when the fourth is under way
		run, err := r.Poll(t.Context())
		check(t, err)
		next = run.Last() + 1
	}
	check(t, s.Trim(t.Context(), 5000))
	_, err = follow(t, r, next)
	window, ok := errors.AsType[*reprise.WindowError](err)
	if !ok || window.Missed() == 0 || window.Earliest.Seq != 4999 {
		t.Fatalf("after the trim: %v", err)
	}
	check(t, r.Seek(reprise.Earliest()))
	if next, err = follow(t, r, 5000); !errors.Is(err, reprise.ErrEnded) || next != coldEvents+2 {
		t.Errorf("after the gap: up to event %d, then %v", next-1, err)
	}
}
