package mcphttp_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

// TestSessionsOfExcludedPrincipalEnd: at each replica that uses them, with their calls, and not those of others.
func TestSessionsOfExcludedPrincipalEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, exclude := context.WithCancelCause(t.Context())
		opts := mcphttp.Options{
			Identify: byWho,
			Life: func(_ reprise.Tenant, principal string) context.Context {
				if principal == "ann" {
					return life
				}
				return context.Background()
			},
		}
		hub, keys := shared.New(memstore.New(nil)), reprise.NewKeyset()
		one := newFixture(t, setup{store: hub.Store(), log: reprise.Options{Keys: keys}, opts: opts})
		two := newFixture(t, setup{store: hub.Store(), log: reprise.Options{Keys: keys}, opts: opts})
		anns, bens := one.beginAs("2025-11-25", "a/ann"), one.beginAs("2025-11-25", "a/ben")
		running := anns.tool("steps", toolInput{Gate: "never"})
		away := anns.with(two)
		away.get("").Body.Close() // the other replica uses the session too
		if one.handler.Open() != 2 || two.handler.Open() != 1 {
			t.Fatalf("%d and %d sessions", one.handler.Open(), two.handler.Open())
		}
		exclude(errors.New("revoked"))
		for running.next() != "" { // an answer may come before the end
		}
		running.drop()
		synctest.Wait()
		if one.handler.Open() != 1 || two.handler.Open() != 0 {
			t.Errorf("%d and %d sessions are left", one.handler.Open(), two.handler.Open())
		}
		anns.refused(anns.get(""), http.StatusNotFound, "session_not_found")
		away.refused(away.get(""), http.StatusNotFound, "session_not_found")
		bens.stream(bens.get("")).drop()
	})
}
