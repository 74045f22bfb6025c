package mcphttp_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcphttp"
	"reprise/replica"
	"reprise/store/memstore"
)

// replicas are fixtures over one store.
type replicas struct {
	testing.TB
	hub  *shared.Hub
	keys *reprise.Keyset
	lost atomic.Int64
}

type replicaFixture struct {
	*fixture
	member *replica.Member
	store  *shared.Store
}

func newReplicas(tb testing.TB) *replicas {
	return &replicas{TB: tb, hub: shared.New(memstore.New(nil)), keys: reprise.NewKeyset()}
}

// join starts another replica.
func (rs *replicas) join() *replicaFixture {
	rs.Helper()
	store := rs.hub.Store()
	// The Member has a Log of its own here, which a program need not have.
	log, err := reprise.Open(rs.Context(), store, &reprise.Options{Keys: rs.keys, SweepEvery: -1})
	check(rs, err)
	member, err := replica.Join(rs.Context(), log, &replica.Options{Beat: 100 * time.Millisecond, TTL: time.Second})
	check(rs, err)
	opts := mcphttp.Options{Replica: member, Hooks: &mcphttp.Hooks{Lost: func(reprise.Tenant) { rs.lost.Add(1) }}}
	w := &replicaFixture{
		fixture: newFixture(rs, setup{store: rs.hub.Store(), log: reprise.Options{Keys: rs.keys}, opts: opts}),
		member:  member,
		store:   store,
	}
	rs.Cleanup(func() {
		w.fixture.close()
		_ = member.Leave(context.Background())
		_ = log.Close()
		_ = store.Close()
	})
	return w
}

// TestAnotherReplica: a session is known there, its streams are replayed and go on live.
func TestAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReplicas(t)
		a, b := rs.join(), rs.join()
		c := a.begin("2025-11-25")
		s := c.tool("steps", toolInput{N: 2, Gate: "g"})
		s.prime()
		primed := s.lastID
		s.want(progress(1, 2)...)
		there := c.with(b.fixture)
		again := there.stream(there.get(primed))
		s.ends() // taken over by another replica
		again.want(progress(1, 2)...)
		a.tools.release("g")
		again.want(progress(3, 4)...)
		again.want(`"done"`)
		again.ends()
		call := there.tool("steps", toolInput{N: 1})
		call.want(progress(1, 2)...)
		call.want(`"done"`)
		call.ends()
		here := c.stream(c.get(call.lastID))
		here.ends()
	})
}

// TestStateIsThatOfAllReplicas: what one is told, the others know.
func TestStateIsThatOfAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReplicas(t)
		a, b := rs.join(), rs.join()
		c := a.begin("2025-11-25")
		there := c.with(b.fixture)
		there.stream(there.post(`{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"info"}}`)).
			want(`"result"`)
		s := c.tool("level", toolInput{})
		s.want("notifications/message", `"logged"`)
		s.ends()
		whole := c.stream(c.get(""))
		whole.prime()
		res := there.do(there.request(http.MethodDelete, ""))
		there.text(res)
		whole.ends()
		c.refused(c.get(""), http.StatusNotFound, "session_not_found")
	})
}

// TestAnswersFindTheirReplica: what a server asks the client through one replica may be answered through
// another, and a request may be cancelled there.
func TestAnswersFindTheirReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReplicas(t)
		a, b := rs.join(), rs.join()
		c := a.begin("2025-11-25")
		there := c.with(b.fixture)
		s := c.tool("ask", toolInput{})
		s.prime()
		asked := s.next()
		if !strings.Contains(asked, "roots/list") {
			t.Fatalf("asked %s", asked)
		}
		there.accepted(
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///there"}]}}`, idOf(asked)),
		)
		s.want("file:///there")
		s.ends()
		s = c.tool("steps", toolInput{Gate: "g"})
		s.prime()
		<-a.tools.began
		there.accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		if gate := <-a.tools.cancelled; gate != "g" {
			t.Errorf("cancelled %q", gate)
		}
		s.drop()
	})
}

// idOf is the id of a message as it is written.
func idOf(message string) string {
	_, rest, _ := strings.Cut(message, `"id":`)
	id, _, _ := strings.Cut(rest, ",")
	return id
}

// TestDeadReplica: its calls are answered with an error by one of the others, once, and its sessions go on.
func TestDeadReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReplicas(t)
		a, b, d := rs.join(), rs.join(), rs.join()
		c := a.begin("2025-11-25")
		s := c.tool("steps", toolInput{N: 1, Gate: "g"})
		s.prime()
		s.want(progress(1, 1)...)
		there := c.with(b.fixture)
		waiting := there.stream(there.get(s.lastID))
		waiting.prime()
		check(t, a.member.Close()) // it tells nobody, as one that was killed
		waiting.want(`"server_lost"`)
		waiting.ends()
		elsewhere := c.with(d.fixture)
		elsewhere.stream(elsewhere.get(s.lastID)).want(`"server_lost"`)
		if n := rs.lost.Load(); n != 1 {
			t.Errorf("%d calls were told as lost, want 1", n)
		}
		s = elsewhere.tool("echo", toolInput{})
		s.want(`"result"`)
		s.ends()
	})
}
