package api

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"reprise"
	"reprise/internal/serverproof"
	"reprise/internal/web"
)

// document is the contract of the API.
//
//go:embed openapi.yaml
var document []byte

// OpenAPI returns the OpenAPI document of the API, in YAML. It must not be changed.
func OpenAPI() []byte { return document }

func (s *Server) openAPI(x *web.Exchange) error {
	x.W.Header().Set("Content-Type", "application/yaml")
	x.W.Header().Set("Content-Length", strconv.Itoa(len(document)))
	x.AllowWrite()
	_, _ = x.W.Write(document)
	return nil
}

type healthBody struct {
	Status string `json:"status"`
}

// healthz answers without asking the store or anything else.
func (s *Server) healthz(x *web.Exchange) error {
	return x.Answer(http.StatusOK, healthBody{"ok"})
}

type proofBody struct {
	Proof string `json:"proof"`
}

// prove answers a challenge with a proof that the server knows the token; see package serverproof.
func (s *Server) prove(x *web.Exchange) error {
	address, _ := x.R.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if address == nil {
		return reprise.ErrNotFound
	}
	proof, err := serverproof.Answer(s.opts.Token, x.Query.Text(serverproof.Param), address.String())
	if err != nil {
		return web.BadRequest(serverproof.Param, err.Error())
	}
	return x.Answer(http.StatusOK, proofBody{proof})
}

// readyz says whether requests can be served: the store can be read and written and the server is
// not shutting down.
func (s *Server) readyz(x *web.Exchange) error {
	if s.host.IsDraining() {
		return fmt.Errorf("%w: it takes no new commands, and stops when those that run have ended", reprise.ErrClosed)
	}
	if err := s.health.check(x.R.Context(), s.log); err != nil {
		return err
	}
	return x.Answer(http.StatusOK, healthBody{"ready"})
}

const (
	// healthTimeout limits the health check of the store.
	healthTimeout = 5 * time.Second
	// healthFresh is how long one result is reused for all requests.
	healthFresh = time.Second
)

// health is the last result for the store.
type health struct {
	mu      sync.Mutex
	checked time.Time
	err     error
	asked   chan struct{} // closed when the store has answered; nil while it is not asked
}

// check sends a small request to the store. Concurrent calls share one request, so that health checks cannot overload
// the store. The request goes on without a caller whose context ends.
func (h *health) check(ctx context.Context, log *reprise.Log) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.checked) < healthFresh {
		return h.err
	}
	if h.asked == nil {
		h.asked = make(chan struct{})
		go h.ask(context.WithoutCancel(ctx), log)
	}
	answered := h.asked
	h.mu.Unlock()
	var err error
	select {
	case <-answered:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	h.mu.Lock()
	if err != nil {
		return err
	}
	return h.err
}

func (h *health) ask(ctx context.Context, log *reprise.Log) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	err := log.Ready(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err, h.checked = err, time.Now()
	close(h.asked)
	h.asked = nil
}

func (s *Server) metrics(x *web.Exchange) error {
	x.AllowWrite()
	s.opts.Metrics.registry.ServeHTTP(x.W, x.R)
	return nil
}
