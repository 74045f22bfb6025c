package drain

import (
	"net/http"
	"time"

	"reprise/client"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/wire"
)

// API drains a server over HTTP.
type API struct{ Drain *Drain }

// Routes implements web.Part.
func (a API) Routes(m *web.Mux) {
	m.Handle("GET", "/v1/drain", identity.ScopeAdmin, nil, a.show)
	m.Handle("POST", "/v1/drain", identity.ScopeAdmin, nil, a.begin)
}

func (a API) answer(x *web.Exchange, status int) error {
	s := a.Drain.State()
	return x.Answer(status, client.Drain{
		Draining: !s.Since.IsZero(), Since: wire.At(s.Since), Until: wire.At(s.Until),
		Running: s.Running, Queued: s.Queued,
	})
}

func (a API) show(x *web.Exchange) error { return a.answer(x, http.StatusOK) }

// defaultTime is how long a server drains that is not told.
const defaultTime = 10 * time.Minute

func (a API) begin(x *web.Exchange) error {
	body := client.DrainRequest{Timeout: client.Duration(defaultTime)}
	if err := x.DecodeOptional(&body); err != nil {
		return err
	}
	if err := a.Drain.Begin(time.Duration(body.Timeout)); err != nil {
		return web.Unprocessable("timeout", err.Error())
	}
	return a.answer(x, http.StatusAccepted)
}
