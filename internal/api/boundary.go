package api

import (
	"net/http"

	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/web"
)

// serverBody says what a server is, and what it lets the commands of the sender do.
type serverBody struct {
	Version string `json:"version"`
	// Scopes are what the sender may do, with everything or below a prefix.
	Scopes []identity.Scope `json:"scopes"`
	// Commands is nil if the sender may not run any: Refused says why, if that is not for want of the scope.
	Commands *execution.Boundary `json:"commands,omitempty"`
	Refused  string              `json:"refused,omitempty"`
}

func (s *Server) showServer(x *web.Exchange) error {
	body := serverBody{Version: s.opts.Version, Scopes: []identity.Scope{}}
	for _, scope := range identity.AllScopes() {
		if x.Who.May(scope) {
			body.Scopes = append(body.Scopes, scope)
		}
	}
	if x.Who.May(identity.ScopeRun) {
		b, err := s.host.Boundary(x.Who.Tenant)
		if err == nil {
			body.Commands = &b
		} else {
			body.Refused = err.Error()
		}
	}
	return x.Answer(http.StatusOK, body)
}
