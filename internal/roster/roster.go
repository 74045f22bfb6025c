// Package roster lists the servers that share a store, with what each of them does at the moment. A server is asked
// over its inbox in the store (package replica), so none has to be reachable by the others.
package roster

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"reprise/replica"
)

// service is the name under which the servers answer each other.
const service = "server"

// patience is how long a list waits for the answer of a server.
const patience = 2 * time.Second

// About is what a server says about itself.
type About struct {
	// URL is the address at which the server listens, as it is known to the server itself.
	URL     string    `json:"url"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Running and Queued are the executions that the server runs and that wait for it.
	Running int `json:"running"`
	Queued  int `json:"queued"`
	// Streams is the number of streams that the server has in memory, because they are written or read there.
	Streams int `json:"streams"`
}

// Server is one of the servers that share a store.
type Server struct {
	// ID is the name as a replica, which owns executions. A server that was declared dead gets another one.
	ID string
	// Self is true for the server that lists.
	Self bool
	// Joined is when the ID was given. It is zero for a server that has its store alone.
	Joined time.Time
	// Beat is when the newest heartbeat was seen here. It is zero for a server that has its store alone.
	Beat time.Time
	// About is nil if the server has not answered in time, or is of a version that does not answer.
	About *About
}

// Options are the settings of a Roster.
type Options struct {
	// Replica is this server among others. Default: it has the store alone.
	Replica *replica.Member
	// Name is the ID of a server that has the store alone.
	Name string
	// About describes this server. It is called for each list, here and on other servers.
	About func() About
	// Logger is told of servers that do not answer. Default: silent.
	Logger *slog.Logger
}

// Roster lists servers. It is safe for concurrent use.
type Roster struct{ opts Options }

// New returns a Roster that answers the other servers from now on, until Close.
func New(opts Options) *Roster {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Roster{opts}
	if opts.Replica != nil {
		opts.Replica.Serve(service, func(context.Context, string, []byte) ([]byte, error) {
			return json.Marshal(opts.About())
		})
	}
	return r
}

// Close stops answering. A nil Roster may be closed.
func (r *Roster) Close() {
	if r != nil && r.opts.Replica != nil {
		r.opts.Replica.Serve(service, nil)
	}
}

// List returns at most limit of the live servers, sorted by ID, after an ID. next is the ID of the last one if there
// are more, and "" otherwise. Servers that do not answer within 2 s are listed without About.
func (r *Roster) List(ctx context.Context, after string, limit int) (servers []Server, next string, err error) {
	servers, names := r.live(), []string{}
	slices.SortFunc(servers, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	servers = slices.DeleteFunc(servers, func(s Server) bool { return s.ID <= after })
	if len(servers) > limit {
		servers, next = servers[:limit], servers[limit-1].ID
	}
	for _, s := range servers {
		names = append(names, s.ID)
	}
	for i, about := range r.ask(ctx, names) {
		servers[i].About = about
	}
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	return servers, next, nil
}

// live returns the servers that are alive according to the last look at the store.
func (r *Roster) live() (servers []Server) {
	if r.opts.Replica == nil {
		return []Server{{ID: r.opts.Name, Self: true}}
	}
	for _, m := range r.opts.Replica.Members() {
		servers = append(servers, Server{ID: m.Name, Self: m.Self, Joined: m.Joined, Beat: m.Seen})
	}
	return servers
}

// ask asks servers what they do, all at once.
func (r *Roster) ask(ctx context.Context, names []string) []*About {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers := make([]*About, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		if m := r.opts.Replica; m == nil || m.Name() == name {
			about := r.opts.About()
			answers[i] = &about
			continue
		}
		asking.Go(func() {
			body, err := r.opts.Replica.Call(ctx, name, service, nil)
			var about About
			if err == nil {
				err = json.Unmarshal(body, &about)
			}
			if err != nil {
				r.opts.Logger.Info("replica did not report its status", "replica", name, "error", err)
				return
			}
			answers[i] = &about
		})
	}
	asking.Wait()
	return answers
}
