package roster

import (
	"net/http"

	"reprise/client"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/wire"
)

// API lists the servers that share a store over HTTP.
type API struct{ Roster *Roster }

// Routes implements web.Part.
func (a API) Routes(m *web.Mux) {
	m.Handle("GET", "/v1/replicas", identity.ScopeAdmin, []string{"limit", "cursor"}, a.list)
}

// showReplica leaves nil what only the server itself knows if it does not answer.
func showReplica(s *Server) client.Replica {
	b := client.Replica{
		ID: s.ID, Self: s.Self, Answers: s.About != nil,
		Joined: wire.At(s.Joined), LastHeartbeat: wire.At(s.Beat),
	}
	if a := s.About; a != nil {
		b.URL, b.Version, b.Started, b.Streams = &a.URL, &a.Version, wire.At(a.Started), &a.Streams
		b.Executions = &client.ReplicaExecutions{Running: a.Running, Queued: a.Queued}
	}
	return b
}

func (a API) list(x *web.Exchange) error {
	limit, cursor, err := x.Query.Page()
	if err != nil {
		return err
	}
	servers, next, err := a.Roster.List(x.R.Context(), cursor, limit)
	if err != nil {
		return x.Query.ListError(err)
	}
	shown := make([]client.Replica, len(servers))
	for i := range servers {
		shown[i] = showReplica(&servers[i])
	}
	return x.Answer(http.StatusOK, struct {
		Replicas   []client.Replica `json:"replicas"`
		NextCursor string           `json:"next_cursor"`
	}{shown, next})
}
