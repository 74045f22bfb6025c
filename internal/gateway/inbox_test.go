package gateway

import (
	"testing"
	"testing/synctest"

	"reprise/mcp/mcphttp"
)

func question(id mcphttp.ID) arrival {
	return arrival{m: mcphttp.Message{ID: id, Method: "elicitation/create", Raw: make([]byte, 10)}}
}

func TestParkedInboxForwardsWhatWaitsAndWhatComes(t *testing.T) {
	first, second := newInbox(false), newInbox(false)
	before, now := &clientRequest{in: first}, &clientRequest{in: second}
	first.push(question("1"))
	first.push(arrival{m: mcphttp.Message{Method: "notifications/message"}})
	if asked := first.park(); len(asked) != 1 || asked[0].m.ID != "1" {
		t.Errorf("the questions that wait are %v", asked)
	}
	first.close() // as run does
	first.push(question("2"))
	first.forward(now)
	first.push(arrival{request: before, m: mcphttp.Message{ID: "3"}})
	for _, id := range []mcphttp.ID{"", "2", "3"} {
		a, ok := second.pop()
		if !ok || a.m.ID != id || a.isResponse() && a.request != now {
			t.Errorf("the next arrival is %v, %v, and not %q", a, ok, id)
		}
	}
}

func TestPushWaitsForRoomUnlessItIsAResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInbox(true)
		b.push(arrival{m: mcphttp.Message{Method: "notifications/message", Raw: make([]byte, maxWaiting+1)}})
		pushed := false
		go func() {
			b.push(question("1"))
			pushed = true
		}()
		synctest.Wait()
		if pushed {
			t.Error("a question does not wait for room")
		}
		b.push(arrival{m: mcphttp.Message{ID: "2"}})
		b.pop()
		synctest.Wait()
		if !pushed {
			t.Error("a question waits where there is room")
		}
	})
}

func TestPushFailsWhenInboxIsClosed(t *testing.T) {
	b := newInbox(true)
	b.close()
	if b.push(question("1")) {
		t.Error("a closed inbox takes a question")
	}
}
