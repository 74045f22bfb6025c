package clienttest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"reprise/client"
	"reprise/internal/cutproxy"
)

// cases are all cases, in the order in which they run.
var cases = []testCase{
	{"cut at every byte", "1 2 3", nil, cutAtEveryByte, false},
	{"cut at random", "1 2 4", nil, cutAtRandom, false},
	{"filtered and cut", "1 8", []string{KindReprise, "types"}, filteredAndCut, false},
	{"hostile data", "11", nil, hostileData, false},
	{"long lines", "11", nil, longLines, false},
	{"line ends", "11", nil, lineEnds, false},
	{"deep data", "13", nil, deepData, false},
	{"extremes", "11 13", nil, extremes, false},
	{"silence", "6", nil, silence, false},
	{"silent heads", "6", nil, silentHeads, false},
	{"never reached", "5", []string{KindReprise}, neverReached, false},
	{"bad answers", "4 5", nil, badAnswers, false},
	{"answers of others", "5 10", []string{KindReprise}, answersOfOthers, false},
	{"foreign events", "12", []string{KindReprise}, foreignEvents, false},
	{"foreign ids", "12", []string{KindReprise}, foreignIDs, false},
	{"compressed anyway", "14", nil, compressedAnyway, false},
	{"rewritten answers", "11 14", []string{KindReprise}, rewritten, false},
	{"forgotten cursor", "2 8", []string{KindReprise, "gap"}, forgotten, false},
	{"redirected calls", "10", []string{"run", "publish"}, redirectedCalls, false},
	{"held back", "16", []string{KindReprise}, heldBack, false},
	{"older server", "16", []string{KindReprise}, olderServer, false},
	{"over TLS", "4 6", []string{"tls"}, overTLS, false},
	{"errors at once", "5", []string{KindReprise}, errorsAtOnce, false},
	{"gaps", "8", []string{KindReprise, "gap"}, gaps, false},
	{"lost history", "2 8", []string{KindReprise, "gap"}, lostHistory, false},
	{"hole", "2", []string{KindReprise}, hole, false},
	{"from the tail", "1", []string{KindReprise, "tail"}, fromTail, false},
	{"ended before", "3", nil, endedBefore, false},
	{"killed server", "1 3 4", nil, killedServer, true},
	{"killed client", "1", nil, killedClient, false},
	{"stop", "9", nil, stop, false},
	{"start once", "7", []string{"run"}, startOnce, false},
	{"left early", "15", []string{"run"}, leftEarly, false},
	{"publish once", "7", []string{"publish"}, publishOnce, false},
}

// atOnce is the number of concurrent followers of a case.
const atOnce = 16

// each calls f for 0, step, 2*step, ... below n, several at a time, and returns the first errors. It ends early if
// several calls have waited for the client in vain.
func each(n, step int, f func(i int) error) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error

		waited int // of them, those that are errWaited
	)
	turns := make(chan struct{}, atOnce)
	for i := 0; i < n; i += step {
		mu.Lock()
		enough := waited >= 3
		mu.Unlock()
		if enough {
			break
		}
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if err := f(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
				if errors.Is(err, errWaited) {
					waited++
				}
			}
		})
	}
	wg.Wait()
	if more := len(errs) - 3; more > 0 {
		errs = append(errs[:3], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// cutAtEveryByte cuts the response of a recording after each of its bytes, by FIN and by RST, once, and for some bytes
// three times in a row. A quick run cuts at every 11th byte, by one of them in turn.
func cutAtEveryByte(ctx context.Context, r *run) error {
	if err := r.publishBytes(ctx, r.name, hostile[:8], false); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	rec, err := r.server.record(ctx, r.name)
	if err != nil {
		return err
	}
	addr, closeIt, err := serve(rec)
	if err != nil {
		return err
	}
	defer closeIt()
	whole, closeProxy, err := r.proxy(addr, nil)
	if err != nil {
		return err
	}
	err = r.exactly(r.follow(whole.Addr(), r.name, nil), want)
	closeProxy() // before which it may not have counted what the client has read
	size := int(whole.Passed())
	if err != nil {
		return fmt.Errorf("without a cut: %w", err)
	}
	if size < 1000 {
		return fmt.Errorf("the answer has %d bytes, which is too few", size)
	}
	step := 1
	if r.opts.Quick {
		step = 23 // of twice as many
	}
	return each(2*size, step, func(i int) error {
		n := i / 2
		fault := cutproxy.Fault{Kind: []cutproxy.Kind{cutproxy.FIN, cutproxy.RST}[i%2], After: int64(n)}
		cuts := 1
		if i/step%7 == 3 {
			cuts = 3
		}
		p, closeIt, err := r.proxy(addr, cutproxy.First(cuts, fault))
		if err != nil {
			return err
		}
		defer closeIt()
		if err := r.exactly(r.follow(p.Addr(), r.name, nil), want); err != nil {
			return fmt.Errorf("%d times %s after %d bytes: %w", cuts, fault.Kind, n, err)
		}
		return nil
	})
}

// cutAtRandom cuts the response of the server many times, by FIN and RST in turn. Readers of any source wait each time
// as the server asks; they read a recording, which does not ask.
func cutAtRandom(ctx context.Context, r *run) error {
	count, cuts := 20_000, 300
	if r.opts.Quick {
		count, cuts = 2000, 30
	}
	// Browsers ask for compressed events: what they hold must leave enough bytes for all cuts.
	random := rand.NewChaCha8([32]byte{})
	padded := func(i int) []byte {
		var pad [48]byte
		_, _ = random.Read(pad[:]) // never fails
		return fmt.Appendf(nil, `{"n":%d,"pad":%q}`, i+1, base64.StdEncoding.EncodeToString(pad[:]))
	}
	if err := r.server.publishEach(ctx, r.name, count, false, padded); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	addr := r.server.addr
	if r.service.hello.Kind == KindSSE {
		rec, err := r.server.record(ctx, r.name)
		if err != nil {
			return err
		}
		var closeIt func()
		if addr, closeIt, err = serve(rec); err != nil {
			return err
		}
		defer closeIt()
	}
	p, closeIt, err := r.proxy(addr, func(n int) *cutproxy.Fault {
		if n >= cuts {
			return nil
		}
		return &cutproxy.Fault{Kind: []cutproxy.Kind{cutproxy.FIN, cutproxy.RST}[n%2], After: 900 + int64(n*7919%4000)}
	})
	if err != nil {
		return err
	}
	defer closeIt()
	// A client that takes a busy machine for a dead connection leaves one that was to be cut.
	patient := func(c *Command) { c.IdleMS = 600_000 }
	if err := r.exactly(r.follow(p.Addr(), r.name, patient), want); err != nil {
		return err
	}
	if got := p.Faults(); got != cuts {
		return fmt.Errorf("%d cuts of %d: it has read more than once through a connection that was cut", got, cuts)
	}
	return nil
}

// filteredAndCut follows one of two types, so that the cursor moves by bare ids.
func filteredAndCut(ctx context.Context, r *run) error {
	c, err := r.server.client()
	if err != nil {
		return err
	}
	if _, err := c.CreateStream(ctx, r.name, client.StreamConfig{}); err != nil {
		return err
	}
	p := c.Producer(r.name)
	for i := range 20 {
		var batch []client.NewEvent
		for j := range 50 {
			kind := "note"
			if j%10 == 0 {
				kind = "noise"
			}
			batch = append(batch, client.NewEvent{Type: kind, Data: fmt.Appendf(nil, "%d", i*50+j)})
		}
		if _, err := p.Publish(ctx, batch...); err != nil {
			return err
		}
	}
	if _, err := p.End(ctx, "completed", nil); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	want = slices.DeleteFunc(want, func(e Event) bool { return e.Type == "note" })
	front, closeIt, err := r.proxy(r.server.addr, cutproxy.First(15, cutproxy.Fault{Kind: cutproxy.RST, After: 1500}))
	if err != nil {
		return err
	}
	defer closeIt()
	return r.exactly(r.follow(front.Addr(), r.name, func(c *Command) { c.Types = []string{"noise"} }), want)
}

// publishBytes publishes data as events of bytes.
func (r *run) publishBytes(ctx context.Context, stream string, data []string, open bool) error {
	c, err := r.server.client()
	if err != nil {
		return err
	}
	if _, err := c.CreateStream(ctx, stream, client.StreamConfig{}); err != nil {
		return err
	}
	p := c.Producer(stream)
	for _, d := range data {
		if _, err := p.PublishBytes(ctx, "note", []byte(d)); err != nil {
			return err
		}
	}
	if open {
		return nil
	}
	_, err = p.End(ctx, "completed", nil)
	return err
}

// hostileData publishes bytes that line readers often mishandle.
func hostileData(ctx context.Context, r *run) error {
	if err := r.publishBytes(ctx, r.name, hostile, false); err != nil {
		return err
	}
	var want []Event
	all, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	for i, e := range all {
		if i < len(hostile) {
			e.Data = []byte(hostile[i]) // as it was published, whatever the server says
		}
		want = append(want, e)
	}
	return r.exactly(r.follow(r.server.addr, r.name, nil), want)
}

// longLines sends an event of 5 MiB in one line and one of 5,120 lines.
func longLines(_ context.Context, r *run) error {
	rec, want := recordingOf(longLine(), manyLines(), `"data":"short"`)
	return r.replay(rec, want)
}

// deepData sends data that is JSON and that decoders refuse: the nesting up to which servers took it before they had a
// limit, and integers of many digits. It comes together, and each event in a connection of its own.
func deepData(_ context.Context, r *run) error {
	rec, want := recordingOf(deep()...)
	if err := r.replay(rec, want); err != nil {
		return err
	}
	rec.single = true
	return r.replay(rec, want)
}

// replay follows a recording.
func (r *run) replay(rec *recording, want []Event) error {
	addr, closeIt, err := serve(rec)
	if err != nil {
		return err
	}
	defer closeIt()
	return r.exactly(r.follow(addr, r.name, nil), want)
}

// lineEnds sends the three line ends of the format, a byte order mark, and writes of one or two bytes.
func lineEnds(_ context.Context, r *run) error {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		for _, head := range []string{"", "\uFEFF", ":comment\n:\n\n"} {
			for _, piece := range []int{0, 1, 2} {
				rec, want := recordingOf(`"data":"one"`, "\"data\":[\n1,\n2\n]", `"data":"é\u2028"`)
				rec.end, rec.head, rec.piece = end, head, piece
				if err := r.replay(rec, want); err != nil {
					return fmt.Errorf("lines end with %q, in pieces of %d bytes, behind %q: %w", end, piece, head, err)
				}
			}
		}
	}
	return nil
}

// faults follows an open stream of 40 events through a network that does one thing after another, each in its own
// connection, and ends the stream.
func (r *run) faults(ctx context.Context, plan ...cutproxy.Fault) error {
	for i, fault := range plan {
		stream := fmt.Sprintf("%s-%d", r.name, i)
		if err := r.server.publish(ctx, stream, 1, 40, false); err != nil {
			return err
		}
		want, err := r.server.events(ctx, stream)
		if err != nil {
			return err
		}
		// The server is met first: what is not its answer is tried again only then.
		first := cutproxy.Fault{Kind: cutproxy.FIN, After: 900}
		p, closeIt, err := r.proxy(r.server.addr, func(n int) *cutproxy.Fault {
			return []*cutproxy.Fault{&first, &fault, &fault, nil}[min(n, 3)]
		})
		if err != nil {
			return err
		}
		err = r.exactly(r.follow(p.Addr(), stream, nil), want)
		faults := p.Faults()
		closeIt()
		least := 3
		if fault.Kind == cutproxy.Slow { // the first such connection brings all
			least = 2
		}
		if err == nil && faults < least {
			err = fmt.Errorf("%d faults of %d happened", faults, least)
		}
		if err != nil {
			return fmt.Errorf("%s%s after %d bytes: %w", fault.Kind, statusOf(fault), fault.After, err)
		}
	}
	return nil
}

func statusOf(f cutproxy.Fault) string {
	if f.Code == 0 {
		return ""
	}
	return fmt.Sprintf(" %d", f.Code)
}

// silence is connections that bring nothing any more and stay open, before the head and within the body, those of which
// a half is closed, and those that are slow without being dead.
func silence(ctx context.Context, r *run) error {
	return r.faults(
		ctx,
		cutproxy.Fault{Kind: cutproxy.Stall},
		cutproxy.Fault{Kind: cutproxy.Stall, After: 10},
		cutproxy.Fault{Kind: cutproxy.Stall, After: 700},
		cutproxy.Fault{Kind: cutproxy.Half, After: 700},
		cutproxy.Fault{Kind: cutproxy.Slow, After: 700, Pace: 100 * time.Microsecond},
	)
}

// badAnswers sends the responses of a server that is unavailable for a while.
func badAnswers(ctx context.Context, r *run) error {
	soon := time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat)
	return r.faults(
		ctx,
		cutproxy.Fault{Kind: cutproxy.Refuse},
		cutproxy.Fault{Kind: cutproxy.Status, Code: 503, RetryAfter: "1"},
		cutproxy.Fault{Kind: cutproxy.Status, Code: 502},
		cutproxy.Fault{Kind: cutproxy.Status, Code: 429, RetryAfter: "1"},
		cutproxy.Fault{Kind: cutproxy.Status, Code: 425, RetryAfter: soon},
	)
}
