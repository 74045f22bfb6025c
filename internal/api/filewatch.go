package api

import (
	"net/http"

	"reprise"
	"reprise/internal/files"
	"reprise/internal/identity"
)

// watchBody is how a watch is shown.
type watchBody struct {
	ID        string     `json:"id"`
	Path      string     `json:"path"`
	Recursive bool       `json:"recursive"`
	Cursor    string     `json:"cursor"`
	Links     watchLinks `json:"links"`
}

type watchLinks struct {
	Self   string `json:"self"`
	Events string `json:"events"`
}

// startWatch begins to watch a directory.
func (s *Server) startWatch(x *exchange) error {
	watches, err := s.watchesOf(x)
	if err != nil {
		return err
	}
	var body struct {
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
	}
	if err := s.decodeBody(x, &body); err != nil {
		return err
	}
	watch, err := watches.Start(x.r.Context(), body.Path, body.Recursive)
	if err != nil {
		return err
	}
	self := filesPath + "/watches/" + watch.ID
	return s.answer(x, http.StatusOK, watchBody{
		watch.ID, watch.Path, watch.Recursive, watch.Cursor.String(), watchLinks{self, self + "/events"},
	})
}

// watchesOf returns the watches for whom they are there.
func (s *Server) watchesOf(x *exchange) (*files.Watches, error) {
	if _, err := s.filesOf(x); err != nil {
		return nil, err
	}
	if s.opts.Watches == nil {
		return nil, reprise.ErrNotFound
	}
	return s.opts.Watches, nil
}

// watchEvents answers with what happens below a directory.
func (s *Server) watchEvents(x *exchange) error {
	watches, err := s.watchesOf(x)
	if err != nil {
		return err
	}
	stream, release, err := watches.Follow(x.r.Context(), x.r.PathValue("id"))
	if err != nil {
		return err
	}
	x.atEnd(release)
	return s.follow(x, &reading{stream: stream})
}

// removeWatch forgets a watch.
func (s *Server) removeWatch(x *exchange) error {
	watches, err := s.watchesOf(x)
	if err != nil {
		return err
	}
	if err := watches.Remove(x.r.Context(), x.r.PathValue("id")); err != nil {
		return err
	}
	return x.done()
}

// fileRoutes returns the routes of files, which exist with Options.Files. A sender that may start commands may also
// write files, because each permits the other.
func fileRoutes() []route {
	const read, write = identity.ScopeRead, identity.ScopeRun
	list := []string{"path", "limit", "cursor"}
	upload := []string{"path", "offset", "size", "sha256", "mode", "overwrite", "parents"}
	events := []string{"after", "cursor", "types", "gap", "cursors", "limit", "wait"}
	return []route{
		{"GET", filesPath, read, list, (*Server).listFiles},
		{"DELETE", filesPath, write, []string{"path", "recursive"}, (*Server).removeFile},
		{"GET", filesPath + "/stat", read, []string{"path", "checksum"}, (*Server).showFile},
		{"GET", filesPath + "/search", read, append([]string{"name", "text"}, list...), (*Server).searchFiles},
		{"GET", filesPath + "/content", read, []string{"path"}, (*Server).readFile},
		{"PUT", filesPath + "/content", write, upload, (*Server).writeFile},
		{"GET", filesPath + "/upload", write, []string{"path", "size", "sha256"}, (*Server).showUpload},
		{"POST", filesPath + "/move", write, nil, (*Server).moveFile},
		{"POST", filesPath + "/directory", write, nil, (*Server).makeDirectory},
		{"POST", filesPath + "/permissions", write, nil, (*Server).setFileMode},
		{"POST", filesPath + "/watches", read, nil, (*Server).startWatch},
		{"GET", filesPath + "/watches/{id}/events", read, events, (*Server).watchEvents},
		{"DELETE", filesPath + "/watches/{id}", write, nil, (*Server).removeWatch},
	}
}
