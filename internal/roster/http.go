package roster

import (
	"net/http"

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

// replicaBody is how a server is shown. What only the server itself knows is null if it does not answer.
type replicaBody struct {
	ID            string             `json:"id"`
	Self          bool               `json:"self"`
	Answers       bool               `json:"answers"`
	URL           *string            `json:"url"`
	Version       *string            `json:"version"`
	Started       wire.Time          `json:"started"`
	Joined        wire.Time          `json:"joined"`
	LastHeartbeat wire.Time          `json:"last_heartbeat"`
	Executions    *replicaExecutions `json:"executions"`
	Streams       *int               `json:"streams"`
}

type replicaExecutions struct {
	Running int `json:"running"`
	Queued  int `json:"queued"`
}

func showReplica(s *Server) replicaBody {
	b := replicaBody{
		ID: s.ID, Self: s.Self, Answers: s.About != nil,
		Joined: wire.At(s.Joined), LastHeartbeat: wire.At(s.Beat),
	}
	if a := s.About; a != nil {
		b.URL, b.Version, b.Started, b.Streams = &a.URL, &a.Version, wire.At(a.Started), &a.Streams
		b.Executions = &replicaExecutions{a.Running, a.Queued}
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
	shown := make([]replicaBody, len(servers))
	for i := range servers {
		shown[i] = showReplica(&servers[i])
	}
	return x.Answer(http.StatusOK, struct {
		Replicas   []replicaBody `json:"replicas"`
		NextCursor string        `json:"next_cursor"`
	}{shown, next})
}
