package node

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/datadir"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/isolation"
	"reprise/internal/metrics"
	"reprise/internal/oidc"
	"reprise/internal/quota"
	"reprise/internal/web"
)

// ping is a capability in one file: a path with a scope, and a metric.
type ping struct {
	answered *metrics.Counter
	closed   *bool
}

func (p ping) Routes(m *web.Mux) { m.Handle("GET", "/v1/ping", identity.ScopeRun, nil, p.answer) }

func (p ping) answer(x *web.Exchange) error {
	p.answered.Inc()
	return x.Answer(http.StatusOK, map[string]string{"pong": x.Who.Name})
}

func openPing(closed *bool) Part {
	return func(_ context.Context, n *Node) error {
		p := ping{n.metrics.Registry().Counter("reprise_pings_total", "Pings that were answered."), closed}
		n.routes = append(n.routes, p)
		n.onClose(func() error { *p.closed = true; return nil })
		return nil
	}
}

// TestPartOfOneFile: a capability that no other file knows is opened, asked for its scope, counted and closed, if it is
// in the list of a server.
func TestPartOfOneFile(t *testing.T) {
	dir, closed := t.TempDir(), false
	o := &Options{
		Data: dir, Secrets: dir, Store: "memory:", Listen: "127.0.0.1:0", HTTP: &httpserver.Options{},
		Quotas: &quota.Options{}, Logger: slog.New(slog.DiscardHandler),
		Isolation: func() (isolation.Config, error) { return isolation.Config{Level: isolation.None}, nil },
	}
	parts := append([]Part{openPing(&closed)}, serveParts()...)
	n, err := open(t.Context(), o, oidc.Options{Resource: &oidc.Resource{}}, parts)
	if err != nil {
		t.Fatal(err)
	}
	n.Begin()
	token, err := os.ReadFile(filepath.Join(dir, datadir.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, credential string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if credential != "" {
			r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(credential))
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	if status, body := get("/v1/ping", ""); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", status, body)
	}
	if status, body := get("/v1/ping", string(token)); status != http.StatusOK || !strings.Contains(body, "pong") {
		t.Errorf("%d %s", status, body)
	}
	if _, body := get("/metrics", string(token)); !strings.Contains(body, "\nreprise_pings_total 1\n") {
		t.Errorf("it is not counted: %.300s", body)
	}
	if err := n.Close(); err != nil || !closed {
		t.Errorf("closed: %v, %v", closed, err)
	}
}

// TestPartsAreClosedInReverse: also those before one that fails, each once.
func TestPartsAreClosedInReverse(t *testing.T) {
	n := &Node{}
	var order strings.Builder
	for _, name := range []string{"a", "b", "c"} {
		n.onClose(func() error { order.WriteString(name); return nil })
	}
	for range 2 {
		if err := n.closeTo(1); err != nil {
			t.Error(err)
		}
	}
	if err := n.Close(); err != nil || order.String() != "cba" {
		t.Errorf("%q, %v", order.String(), err)
	}
}
