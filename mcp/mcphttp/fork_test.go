package mcphttp_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// TestForkInMidStream: a client that has got messages which a promotion lost is told by a log message how many, and
// gets what comes after the fork. Its last event id is refused with the fork.
func TestForkInMidStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := shared.New(memstore.New(nil))
		store := hub.Store()
		defer func() { check(t, store.Close()) }()
		w := newFixture(t, setup{store: store})
		defer w.close()
		c := w.begin("2025-11-25")
		whole := c.stream(c.get(""))
		whole.prime()
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "mcp:" + c.session + "/0"}
		tell := func() {
			t.Helper()
			stream, err := w.log.Stream(t.Context(), key)
			check(t, err)
			_, err = stream.Append(t.Context(), reprise.Event{
				Data: []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`), Format: reprise.FormatJSON,
			})
			check(t, err)
		}
		for range 3 {
			tell()
			whole.want("notifications/x")
		}
		lost := whole.lastID
		check(t, hub.Lose(t.Context(), key, 1))
		whole.want(`"data":{"code":"epoch_changed","missed":0,"taken_back":2}`)
		if fork := whole.lastID; !strings.HasPrefix(fork, "0~1.") {
			t.Errorf("it goes on after %s, want the fork", fork)
		}
		fork := whole.lastID
		tell()
		whole.want("notifications/x")
		if !strings.HasPrefix(whole.lastID, "0~2.") {
			t.Errorf("the message after the fork is %s", whole.lastID)
		}
		refused := c.refused(c.get(lost), 410, "epoch_changed")
		if want := fmt.Sprintf(`"fork":%q`, fork); !strings.Contains(refused, want) {
			t.Errorf("the refusal is %s, want %s", refused, want)
		}
		again := c.stream(c.get(fork))
		again.prime()
		again.want("notifications/x")
		again.drop()
	})
}
