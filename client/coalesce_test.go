package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"reprise"
	"reprise/client"
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
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		wrong := problemAnswer(422, "", "invalid", false)
		w := held(release, answerPublished(1, 1), wrong, answerPublished(2, 2), wrong, answerPublished(3, 3))
		p := w.client(t, client.Options{}).Producer("s")
		ctx := t.Context()
		published, errs := publishWaiting(p, func() { close(release) }, ctx, ctx, ctx, ctx)
		var got []string
		for i := range errs {
			got = append(got, fmt.Sprint(published[i].First, errors.Is(errs[i], reprise.ErrInvalid)))
		}
		if text := strings.Join(got, ", "); text != "1 false, 2 false, 0 true, 3 false" {
			t.Error(text)
		}
		var numbers []string
		for i := range w.count() {
			numbers = append(numbers, w.request(t, i).Header.Get("Producer-Seq"))
		}
		if text := strings.Join(numbers, " "); text != "0 1 1 2 2" {
			t.Errorf("the numbers %s", text)
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
