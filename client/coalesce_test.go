package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/client"
	"reprise/internal/problem"
	"reprise/store/memstore"
)

// note is an event whose data is a number.
func note(n int) client.NewEvent { return client.NewEvent{Type: "note", Data: fmt.Append(nil, n)} }

const publishedOne = `{"first":%d,"last":%d,"cursor":"%d.7ZK3M9Q2VTX4WB8A.0F3KQ6T2M9YVC"}`

// answerPublished says that events were published.
func answerPublished(first, last int) []byte {
	return jsonAnswer(200, fmt.Sprintf(publishedOne, first, last, last))
}

// publishWaiting publishes 0, and then, while that is under way, one more event in each of several calls. When all
// wait, it calls then. It returns what each call returned.
func publishWaiting(p *client.Producer, then func(), contexts ...context.Context) ([]client.Published, []error) {
	published, errs := make([]client.Published, len(contexts)), make([]error, len(contexts))
	var calls sync.WaitGroup
	for i, ctx := range contexts {
		calls.Go(func() { published[i], errs[i] = p.Publish(ctx, note(i)) })
		synctest.Wait() // they come in order, while the first one waits for its answer
	}
	then()
	calls.Wait()
	return published, errs
}

// held answers the first request when release is closed.
func held(release <-chan struct{}, answers ...[]byte) *wire {
	w := script(answers...)
	answer := w.answer
	w.answer = func(i int, r *http.Request) ([]byte, bool) {
		if i == 0 {
			<-release
		}
		return answer(i, r)
	}
	return w
}

func TestCallsThatWaitArePublishedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := held(release, answerPublished(1, 1), answerPublished(2, 4))
		p := w.client(t, client.Options{}).Producer("s")
		ctx := t.Context()
		published, errs := publishWaiting(p, func() { close(release) }, ctx, ctx, ctx, ctx)
		if err := errors.Join(errs...); err != nil || w.count() != 2 {
			t.Fatalf("%d requests, %v", w.count(), err)
		}
		for i, got := range published {
			want := uint64(i + 1)
			if got.First != want || got.Last != want || !strings.HasPrefix(got.Cursor, fmt.Sprintf("%d.", want)) {
				t.Errorf("call %d: %+v", i, got)
			}
		}
		const events = `{"events":[{"type":"note","data":1},{"type":"note","data":2},{"type":"note","data":3}]}`
		if w.bodies[1] != events || w.request(t, 1).Header.Get("Producer-Seq") != "1" {
			t.Errorf("sent %s as %s", w.bodies[1], w.request(t, 1).Header.Get("Producer-Seq"))
		}
	})
}

// Where one of several calls is wrong, the others do not fail with it.
func TestCallsOfARefusedRequestAreSentForThemselves(t *testing.T) {
	for _, refused := range []struct {
		status int
		code   string
	}{{422, "invalid"}, {413, "payload_too_large"}} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			wrong := problemAnswer(refused.status, "", refused.code, false)
			w := held(release, answerPublished(1, 1), wrong, answerPublished(2, 2), wrong, answerPublished(3, 3))
			p := w.client(t, client.Options{}).Producer("s")
			ctx := t.Context()
			published, errs := publishWaiting(p, func() { close(release) }, ctx, ctx, ctx, ctx)
			var got []string
			for i := range errs {
				p, told := problem.As(errs[i])
				got = append(got, fmt.Sprint(published[i].First, told && p.Code == problem.Code(refused.code)))
			}
			if text := strings.Join(got, ", "); text != "1 false, 2 false, 0 true, 3 false" {
				t.Errorf("%s: %s", refused.code, text)
			}
			var numbers []string
			for i := range w.count() {
				numbers = append(numbers, w.request(t, i).Header.Get("Producer-Seq"))
			}
			if text := strings.Join(numbers, " "); text != "0 1 1 2 2" {
				t.Errorf("%s: the numbers %s", refused.code, text)
			}
		})
	}
}

// A request of several calls whose answer is lost is sent again with its number and its bytes, whatever waits by then.
func TestCallsOfALostAnswerAreSentAgainAsTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := held(release, answerPublished(1, 1), nil, nil, answerPublished(2, 3), answerPublished(4, 4))
		p := w.client(t, client.Options{GiveUp: time.Minute}).Producer("s")
		answer, late := w.answer, make(chan error, 1)
		w.answer = func(i int, r *http.Request) ([]byte, bool) {
			if i == 1 { // a call that comes while the answer is being lost
				go func() {
					_, err := p.Publish(t.Context(), note(3))
					late <- err
				}()
				synctest.Wait()
			}
			return answer(i, r)
		}
		ctx := t.Context()
		_, errs := publishWaiting(p, func() { close(release) }, ctx, ctx, ctx)
		if err := errors.Join(append(errs, <-late)...); err != nil {
			t.Fatal(err)
		}
		var sent []string
		for i := range w.count() {
			sent = append(sent, w.request(t, i).Header.Get("Producer-Seq")+" "+w.bodies[i])
		}
		const both = `1 {"events":[{"type":"note","data":1},{"type":"note","data":2}]}`
		want := []string{
			`0 {"events":[{"type":"note","data":0}]}`, both, both, both, `2 {"events":[{"type":"note","data":3}]}`,
		}
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// Over connections that are cut at random bytes of requests and answers, each event of many callers is kept once, those
// of a caller are in order, and each call is told what is its own.
func TestCallsOverCutConnectionsArePublishedOnce(t *testing.T) {
	t.Parallel()
	address, log := liveServerOn(t, memstore.New(nil))
	cuts := &randomCutter{random: rand.New(rand.NewPCG(5, 6)).Int64N}
	transport := &http.Transport{DialContext: cuts.dial, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(&client.Options{
		URL: address, Token: liveToken, HTTPClient: &http.Client{Transport: transport}, MinWait: time.Millisecond,
		MaxWait: time.Millisecond, GiveUp: 10 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateStream(t.Context(), "s", client.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	cuts.left.Store(100)
	const callers, each = 16, 25
	var seqs [callers * each]uint64
	var calls sync.WaitGroup
	p := c.Producer("s")
	for caller := range callers {
		calls.Go(func() {
			for i := caller * each; i < (caller+1)*each; i++ {
				published, err := p.Publish(t.Context(), note(i))
				if err != nil || published.First != published.Last {
					t.Errorf("event %d: %+v, %v", i, published, err)
				}
				seqs[i] = published.First
			}
		})
	}
	calls.Wait()
	numbers := numbersOf(t, log, "s")
	if len(numbers) != len(seqs) {
		t.Fatalf("%d events, want %d", len(numbers), len(seqs))
	}
	for i, seq := range seqs {
		if seq == 0 || numbers[seq-1] != i {
			t.Errorf("event %d was published as %d", i, seq)
		}
		if i%each > 0 && seqs[i-1] >= seq {
			t.Errorf("event %d comes before the one before it", i)
		}
	}
	if left := cuts.left.Load(); left >= 50 {
		t.Errorf("%d of 100 cuts are left", left)
	}
}

// The end of a stream takes its place among the calls that wait: those before it are published, those after it refused.
func TestEndKeepsItsPlaceAmongCallsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ended := problemAnswer(409, "", "stream_ended", false)
		w := held(release, answerPublished(1, 1), answerPublished(2, 2), answerPublished(3, 3), ended)
		p := w.client(t, client.Options{}).Producer("s")
		publish := func() error {
			_, err := p.Publish(t.Context(), note(0))
			return err
		}
		end := func() error {
			_, err := p.End(t.Context(), "completed", nil)
			return err
		}
		var calls sync.WaitGroup
		var errs [5]error
		for i, call := range []func() error{publish, publish, end, publish, publish} {
			calls.Go(func() { errs[i] = call() })
			synctest.Wait() // they come in order
		}
		close(release)
		calls.Wait()
		for i, err := range errs {
			if i < 3 && err != nil || i >= 3 && !errors.Is(err, reprise.ErrEnded) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if w.count() != 4 {
			t.Errorf("%d requests, want 4", w.count())
		}
	})
}

// A call that is cancelled while it waits publishes nothing, and one that is under way with others does not end them.
func TestCancelledCallLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := held(release, answerPublished(1, 1), answerPublished(2, 2))
		p := w.client(t, client.Options{}).Producer("s")
		ctx, cancel := context.WithCancel(t.Context())
		then := func() {
			cancel()
			synctest.Wait()
			close(release)
		}
		_, errs := publishWaiting(p, then, t.Context(), ctx, t.Context())
		if errs[0] != nil || !errors.Is(errs[1], context.Canceled) || errs[2] != nil || w.count() != 2 {
			t.Errorf("%d requests, %v", w.count(), errs)
		}
		if want := `{"events":[{"type":"note","data":2}]}`; w.bodies[1] != want {
			t.Errorf("sent %s, want %s", w.bodies[1], want)
		}
	})
}
