package audit

import (
	"net/http"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/reads"
	"reprise/internal/web"
)

// API gives access to the records over HTTP.
type API struct {
	Trail *Trail
	Log   *reprise.Log // that of the Trail
	Reads *reads.Service
}

// Routes implements web.Part.
func (a API) Routes(m *web.Mux) {
	m.Handle("GET", "/v1/audit/events", identity.ScopeAudit, reads.Parameters, a.events, web.Follows)
	m.Handle("POST", "/v1/audit/check", identity.ScopeAudit, nil, a.check)
}

func (a API) events(x *web.Exchange) error {
	stream, err := a.Log.Stream(x.R.Context(), StreamKey)
	if err != nil {
		return err
	}
	return a.Reads.Follow(x, &reads.Reading{Stream: stream})
}

func (a API) check(x *web.Exchange) error {
	found, err := a.Trail.Check(x.R.Context())
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, found)
}
