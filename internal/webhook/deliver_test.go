package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/internal/webhook"
)

// signatureOf computes a signature from the text of Standard Webhooks 1.0.
func signatureOf(secret string, d *delivery) string {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", d.header.Get("webhook-id"), d.header.Get("webhook-timestamp"), d.body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// A hook sends what comes after it was made, of the streams and types that it covers, in order and signed.
func TestEventsAreSentInOrder(t *testing.T) {
	f := newFixture(t, webhook.Options{})
	r := newReceiver(t, nil)
	old := f.stream("ci/old")
	f.publish(old, 1, 3, "note")
	f.publish(f.stream("other"), 1, 3, "note")
	hook := f.add(webhook.Request{URL: r.URL, Source: webhook.Streams, Prefix: "ci/", Types: []string{"note", "end"}})
	f.publish(old, 4, 5, "note") // before anybody sends
	f.send(1)
	if got := texts(r.await(t, 2)); !slices.Equal(got, []string{
		"stream.event ci/old note 4", "stream.event ci/old note 5",
	}) {
		t.Fatal(got)
	}
	fresh := f.stream("ci/new")
	f.publish(fresh, 1, 2, "note")
	f.publish(fresh, 3, 3, "noise")
	f.publish(f.stream("other"), 4, 6, "note")
	if _, err := fresh.End(t.Context(), "completed", reprise.Event{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"stream.event ci/new note 1", "stream.event ci/new note 2", "stream.event ci/new end "}
	got := r.await(t, 5)
	if diff := cmp.Diff(want, texts(got[2:])); diff != "" {
		t.Fatal(diff)
	}
	ids := map[string]bool{}
	for i := range got {
		ids[got[i].header.Get("webhook-id")] = true
		if s := got[i].header.Get("webhook-signature"); s != signatureOf(hook.Secrets[0].Text, &got[i]) {
			t.Errorf("signature %q", s)
		}
	}
	if len(ids) != len(got) {
		t.Errorf("%d ids for %d events", len(ids), len(got))
	}
}

// What the receiver refuses comes again under the same id, and what comes after it waits.
func TestRefusedMessageIsSentAgain(t *testing.T) {
	f := newFixture(t, webhook.Options{})
	r := newReceiver(t, func(n int, _ *delivery) int {
		if n <= 4 {
			return []int{500, 302, 429, 400}[n-1]
		}
		return 200
	})
	r.header.Set("Location", r.URL+"/elsewhere")
	st := f.stream("a")
	hook := f.add(webhook.Request{URL: r.URL, Source: webhook.Streams, Stream: "a"})
	f.send(1)
	f.publish(st, 1, 2, "note")
	got := r.await(t, 6)
	for i := range got[:5] {
		if got[i].header.Get("webhook-id") != got[0].header.Get("webhook-id") || got[i].Data["text"] != "1" {
			t.Errorf("try %d is %v", i+1, texts(got[i:i+1]))
		}
	}
	if got[5].Data["text"] != "2" {
		t.Errorf("then %v", texts(got[5:]))
	}
	f.awaitHook(hook.ID, "done", func(_ *webhook.Hook, p webhook.Progress) bool {
		return p.Sent == 2 && p.Queued == 2 && p.Failing == nil && p.Succeeded != nil
	})
}

// Of two that send, the newer goes on after the positions of the older, which is refused; so does one after a restart.
func TestSenderTakesOver(t *testing.T) {
	f := newFixture(t, webhook.Options{})
	r := newReceiver(t, nil)
	st := f.stream("a")
	hook := f.add(webhook.Request{URL: r.URL, Source: webhook.Streams, Stream: "a"})
	first := make(chan error, 1)
	old := f.hooks
	go func() { first <- old.Send(context.Background(), 1) }()
	f.publish(st, 1, 10, "note")
	r.await(t, 10)
	f.awaitHook(hook.ID, "idle", func(_ *webhook.Hook, p webhook.Progress) bool { return p.Sent == 10 })
	f.open() // as another replica, or after a restart
	stop := f.send(2)
	f.publish(st, 11, 20, "note")
	if err := <-first; !errors.Is(err, reprise.ErrFenced) {
		t.Errorf("the older one ends with %v", err)
	}
	r.await(t, 20)
	f.awaitHook(hook.ID, "idle", func(_ *webhook.Hook, p webhook.Progress) bool { return p.Sent == 20 })
	stop()
	f.publish(st, 21, 25, "note") // while nobody sends
	f.open()
	f.send(3)
	r.await(t, 25)
	f.awaitHook(hook.ID, "idle", func(_ *webhook.Hook, p webhook.Progress) bool { return p.Sent == 25 })
	seen := map[string]string{}
	var order []string
	for _, d := range r.await(t, 25) {
		id, text := d.header.Get("webhook-id"), fmt.Sprint(d.Data["text"])
		if before, again := seen[id]; again {
			if before != text {
				t.Errorf("one id for %s and %s", before, text)
			}
			continue
		}
		seen[id] = text
		order = append(order, text)
	}
	if again := r.count() - len(seen); again > 4 { // what was under way at each of two handovers, in both stages
		t.Errorf("%d requests came again", again)
	}
	for i, text := range order {
		if text != fmt.Sprint(i+1) {
			t.Fatalf("order %v", order)
		}
	}
}

// The end of an execution is told once, with what its end event says; its output is not.
func TestEndOfExecutionIsSent(t *testing.T) {
	f := newFixture(t, webhook.Options{})
	r := newReceiver(t, nil)
	start := func(id, session string) *reprise.Stream {
		key := reprise.StreamKey{Tenant: tenant, Name: "execution:" + id}
		st, _, err := f.log.Create(t.Context(), key, reprise.StreamConfig{
			Labels: map[string]string{"session": session, "=branch": "main"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	end := func(st *reprise.Stream) {
		last := reprise.Event{Data: []byte(`{"outcome":"exited","exit_code":3}`), Format: reprise.FormatMembers}
		if _, err := st.End(t.Context(), "exited", last); err != nil {
			t.Fatal(err)
		}
	}
	over := start("over", "ci-1")
	end(over)
	running, other := start("running", "ci-1"), start("other", "dev")
	f.add(webhook.Request{URL: r.URL, Prefix: "ci-"})
	f.send(1)
	f.publish(running, 1, 50, "stdout")
	end(other)
	end(running)
	quick := start("quick", "ci-2")
	end(quick)
	ended := map[any]map[string]any{}
	for _, d := range r.await(t, 2) {
		if d.Type != "execution.ended" {
			t.Errorf("type %q", d.Type)
		}
		ended[d.Data["id"]] = d.Data
	}
	for _, id := range []string{"running", "quick"} {
		d := ended[id]
		if d == nil || d["outcome"] != "exited" || d["exit_code"] != 3.0 ||
			fmt.Sprint(d["labels"]) != "map[branch:main]" {
			t.Errorf("%s: %v", id, d)
		}
	}
}

// A hook is disabled by 410, by a credential that is revoked, and after GiveUp. Once enabled it goes on where it was.
func TestHookIsDisabled(t *testing.T) {
	status := make(chan int, 1)
	status <- 200
	now := func() int { s := <-status; status <- s; return s }
	set := func(s int) { <-status; status <- s }
	f := newFixture(t, webhook.Options{GiveUp: time.Nanosecond})
	r := newReceiver(t, func(int, *delivery) int { return now() })
	st := f.stream("a")
	hook := f.add(webhook.Request{URL: r.URL, Source: webhook.Streams, Stream: "a"})
	f.send(1)
	disabled := func(reason string) {
		t.Helper()
		f.awaitHook(hook.ID, "disabled: "+reason, func(h *webhook.Hook, _ webhook.Progress) bool {
			return h.Disabled != nil && strings.Contains(h.Disabled.Reason, reason)
		})
	}
	enable := func() {
		t.Helper()
		if h, err := f.hooks.Enable(t.Context(), tenant, hook.ID, "ci"); err != nil || h.Disabled != nil {
			t.Fatal(h, err)
		}
	}
	set(http.StatusGone)
	f.publish(st, 1, 1, "note")
	disabled("410 Gone")
	set(200)
	f.publish(st, 2, 2, "note")
	enable()
	if got := texts(r.await(t, 3))[1:]; !slices.Equal(got, []string{"stream.event a note 1", "stream.event a note 2"}) {
		t.Fatal(got)
	}
	f.mu.Lock()
	f.revoked = true
	f.mu.Unlock()
	disabled("the credential of ci")
	f.mu.Lock()
	f.revoked = false
	f.mu.Unlock()
	set(500)
	enable()
	f.publish(st, 3, 3, "note")
	disabled("has failed")
	f.eventually("three reasons were told", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.events) == 3
	})
}

// What falls out of the queue, or out of the window of a stream, is told with its number.
func TestReceiverIsToldOfGaps(t *testing.T) {
	f := newFixture(t, webhook.Options{Queue: reprise.Retention{MaxEvents: 20, MaxBytes: 1 << 20}})
	r := newReceiver(t, nil)
	small := reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 5}}
	st, _, err := f.log.Create(t.Context(), reprise.StreamKey{Tenant: tenant, Name: "a"}, small)
	if err != nil {
		t.Fatal(err)
	}
	f.add(webhook.Request{URL: r.URL, Source: webhook.Streams, Stream: "a"})
	f.publish(st, 1, 12, "note") // nobody collects
	stop := f.send(1)
	got := r.await(t, 6)
	if got[0].Type != "webhook.gap" || got[0].Data["missed"] != 7.0 || got[0].Data["stream"] != "a" ||
		got[1].Data["text"] != "8" || got[5].Data["text"] != "12" {
		t.Fatal(texts(got), got[0].Data)
	}
	stop()

	away := make(chan struct{})
	b := newReceiver(t, func(int, *delivery) int {
		select {
		case <-away:
			return 200
		default:
			return 503
		}
	})
	stream := f.stream("b")
	hook := f.add(webhook.Request{URL: b.URL, Source: webhook.Streams, Stream: "b"})
	f.send(2)
	f.publish(stream, 1, 100, "note")
	f.awaitHook(hook.ID, "queued", func(_ *webhook.Hook, p webhook.Progress) bool { return p.Queued == 100 })
	close(away)
	f.awaitHook(hook.ID, "sent", func(_ *webhook.Hook, p webhook.Progress) bool { return p.Sent == 100 })
	b.mu.Lock()
	defer b.mu.Unlock()
	checkGaps(t, b.got, 100)
}

// Messages that leave the queue before they were sent are told although no message comes after them.
func TestReceiverIsToldOfDroppedNewestMessage(t *testing.T) {
	f := newFixture(t, webhook.Options{Queue: reprise.Retention{MaxEvents: 1}})
	asked, held := make(chan struct{}, 1), make(chan struct{})
	r := newReceiver(t, func(n int, _ *delivery) int {
		if n == 1 {
			asked <- struct{}{}
			<-held
		}
		return 200
	})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	stream := f.stream("a")
	hook := f.add(webhook.Request{URL: r.URL, Source: webhook.Streams, Stream: "a"})
	f.send(1)
	f.publish(stream, 1, 1, "note")
	<-asked
	f.publish(stream, 2, 2, "note") // what is noted of the first one pushes it out
	f.awaitHook(hook.ID, "queued", func(_ *webhook.Hook, p webhook.Progress) bool { return p.Queued == 2 })
	release()
	f.awaitHook(hook.ID, "sent", func(_ *webhook.Hook, p webhook.Progress) bool {
		return p.Sent == 2 && p.Dropped == 1
	})
	got := r.await(t, 2)
	if got[0].Data["text"] != "1" || got[1].Type != "webhook.gap" || got[1].Data["missed"] != 1.0 {
		t.Error(texts(got), got[1].Type, got[1].Data)
	}
}

// checkGaps counts the events that were acknowledged, and those that were told as dropped.
func checkGaps(t *testing.T, got []delivery, want int) {
	t.Helper()
	seen := map[string]bool{}
	told, dropped := 0, 0
	for _, d := range got {
		if id := d.header.Get("webhook-id"); !seen[id] {
			seen[id] = true
			if d.Type == "webhook.gap" {
				dropped += int(d.Data["missed"].(float64))
				continue
			}
			told++
		}
	}
	if dropped == 0 || told+dropped < want {
		t.Errorf("%d were sent and %d told as dropped, of %d", told, dropped, want)
	}
}

// A rotation and a removal reach who sends.
func TestChangesReachTheSender(t *testing.T) {
	f := newFixture(t, webhook.Options{})
	r, other := newReceiver(t, nil), newReceiver(t, nil)
	st := f.stream("a")
	hook := f.add(webhook.Request{URL: r.URL, Source: webhook.Streams, Stream: "a"})
	f.send(1)
	f.publish(st, 1, 1, "note")
	r.await(t, 1)
	f.awaitHook(hook.ID, "idle", func(_ *webhook.Hook, p webhook.Progress) bool { return p.Sent == 1 })
	rotated, err := f.hooks.Rotate(t.Context(), tenant, hook.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	// The sender hears of each change a moment later: at most a few events still go out as before.
	seq := 1
	for signed := false; !signed; {
		if seq++; seq > 30 {
			t.Fatal("nothing is signed with the new secret")
		}
		f.publish(st, seq, seq, "note")
		d := r.await(t, seq)[seq-1]
		signed = strings.HasPrefix(d.header.Get("webhook-signature"), signatureOf(rotated.Secrets[0].Text, &d)+" ")
	}
	if err := f.hooks.Remove(t.Context(), tenant, hook.ID); err != nil {
		t.Fatal(err)
	}
	second := f.add(webhook.Request{URL: other.URL, Source: webhook.Streams, Stream: "a"})
	for sent, quiet := 1, 0; quiet < 3; sent++ {
		before := r.count()
		f.publish(st, seq+sent, seq+sent, "note")
		f.awaitHook(second.ID, "idle", func(_ *webhook.Hook, p webhook.Progress) bool { return int(p.Sent) == sent })
		if quiet++; r.count() > before {
			quiet = 0
		}
		if sent == 30 {
			t.Fatalf("%d requests to the receiver of a hook that is gone", r.count())
		}
	}
}

// Who goes on does not send again what is over.
func TestEndedStreamIsNotSentAgain(t *testing.T) {
	f := newFixture(t, webhook.Options{})
	r := newReceiver(t, nil)
	hook := f.add(webhook.Request{URL: r.URL, Source: webhook.Streams, Prefix: "p/"})
	stop := f.send(1)
	st := f.stream("p/x")
	f.publish(st, 1, 1, "note")
	if _, err := st.End(t.Context(), "completed", reprise.Event{}); err != nil {
		t.Fatal(err)
	}
	f.awaitHook(hook.ID, "idle", func(_ *webhook.Hook, p webhook.Progress) bool { return p.Sent == 2 })
	stop()
	f.open()
	f.send(2)
	f.publish(f.stream("p/y"), 1, 1, "note")
	f.awaitHook(hook.ID, "idle", func(_ *webhook.Hook, p webhook.Progress) bool { return p.Sent >= 3 })
	got := texts(r.await(t, 3))
	want := []string{"stream.event p/x note 1", "stream.event p/x end ", "stream.event p/y note 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
