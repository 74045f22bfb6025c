package api_test

import (
	"strings"
	"testing"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/isolation"
)

// TestShowServer: who may run commands sees what they may use, with the bounds of its own tenant; others see the
// version and their scopes alone.
func TestShowServer(t *testing.T) {
	dir := t.TempDir()
	w := start(t, setup{
		api: api.Options{Version: "v1.2.3"},
		host: execution.Options{
			Isolation: isolation.Config{
				SharedUser: true,
				Tenants: map[string]isolation.Directories{
					"acme": {Writable: []string{dir}}, "globex": {Writable: []string{"/globex"}},
				},
			},
			Caps:       execution.Caps{Limits: execution.Limits{OutputBytes: 2000}},
			TenantCaps: map[reprise.Tenant]execution.Caps{"acme": {Limits: execution.Limits{OutputBytes: 1000}}},
		},
	})
	_, runs := w.key("acme", "run")
	_, reads := w.key("acme", "read")
	w.with(runs, func() {
		answer := w.do("GET", "/v1/server", "").is(200)
		if answer.text("version") != "v1.2.3" || answer.text("commands", "least_isolation") != "none" ||
			answer.text("commands", "cwd") == "" || answer.member("commands", "shared_user") != true ||
			answer.member("commands", "limits", "output_bytes") != 1000.0 ||
			!strings.Contains(answer.body, dir) || strings.Contains(answer.body, "globex") {
			t.Errorf("who runs commands sees %s", answer.body)
		}
	})
	w.with(reads, func() {
		answer := w.do("GET", "/v1/server", "").is(200)
		if answer.body != `{"version":"v1.2.3","scopes":["read"]}`+"\n" {
			t.Errorf("who only reads sees %s", answer.body)
		}
	})
}
