package api

import (
	"net/http"
	"time"

	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/roster"
	"reprise/internal/web"
)

// replicasPath is where the servers that share the store are listed.
const replicasPath = "/v1/replicas"

func (s *Server) replicaRoutes(m *web.Mux) {
	m.Handle("GET", replicasPath, identity.ScopeAdmin, []string{"limit", "cursor"}, s.listReplicas)
}

// replicaBody is how a server is shown. What only the server itself knows is null if it does not answer.
type replicaBody struct {
	ID            string             `json:"id"`
	Self          bool               `json:"self"`
	Answers       bool               `json:"answers"`
	URL           *string            `json:"url"`
	Version       *string            `json:"version"`
	Started       *execution.Time    `json:"started"`
	Joined        *execution.Time    `json:"joined"`
	LastHeartbeat *execution.Time    `json:"last_heartbeat"`
	Executions    *replicaExecutions `json:"executions"`
	Streams       *int               `json:"streams"`
}

type replicaExecutions struct {
	Running int `json:"running"`
	Queued  int `json:"queued"`
}

func showReplica(s *roster.Server) replicaBody {
	b := replicaBody{
		ID: s.ID, Self: s.Self, Answers: s.About != nil,
		Joined: timeOrNull(s.Joined), LastHeartbeat: timeOrNull(s.Beat),
	}
	if a := s.About; a != nil {
		b.URL, b.Version, b.Started, b.Streams = &a.URL, &a.Version, timeOrNull(a.Started), &a.Streams
		b.Executions = &replicaExecutions{a.Running, a.Queued}
	}
	return b
}

// timeOrNull returns nil for the zero time.
func timeOrNull(t time.Time) *execution.Time {
	if t.IsZero() {
		return nil
	}
	shown := timeOf(t)
	return &shown
}

func (s *Server) listReplicas(x *web.Exchange) error {
	limit, cursor, err := x.Query.Page()
	if err != nil {
		return err
	}
	servers, next, err := s.opts.Replicas.List(x.R.Context(), cursor, limit)
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
