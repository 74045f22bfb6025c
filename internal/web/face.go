package web

import (
	"net/http"
	"strings"

	"reprise/internal/problem"
)

// Face is a part of the paths that speaks to the clients of another system: they may show their credentials in a header
// of their own, expect refusals in another form, and use headers that our own API does not have.
type Face struct {
	// Prefixes are what its paths begin with.
	Prefixes []string
	// Credential, if not nil, returns the credentials that a request shows by its header, which it may change. A
	// request that shows none, or has Authorization, is identified as usual.
	Credential func(http.Header) []string
	// Allow and Expose list headers of requests and of responses, for pages of other origins that the server allows.
	Allow, Expose string
	// Refuse answers a request that is refused because of err. p is its problem; status and Retry-After are p's unless
	// the other system has its own. Default: as our own API does.
	Refuse func(w http.ResponseWriter, r *http.Request, err error, p *problem.Problem)
}

// AddFace gives the paths below the prefixes of f to a Face. They are added by Handle.
func (m *Mux) AddFace(f *Face) { m.faces = append(m.faces, f) }

// turn lets a request be answered by the Face that its path is of.
func (m *Mux) turn(rec *record, r *http.Request) {
	for _, f := range m.faces {
		for _, prefix := range f.Prefixes {
			if strings.HasPrefix(r.URL.Path, prefix) {
				rec.face = f
				if f.Credential == nil {
					return
				}
				// One that is there twice is none: see httpserver.RepeatedHeader.
				if shown := f.Credential(r.Header); len(shown) == 1 && r.Header.Get("Authorization") == "" {
					r.Header.Set("Authorization", "Bearer "+shown[0])
				}
				return
			}
		}
	}
}
