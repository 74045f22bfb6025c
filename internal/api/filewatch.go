package api

import (
	"net/http"

	"reprise"
	"reprise/internal/files"
	"reprise/internal/identity"
	"reprise/internal/web"
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
func (s *Server) startWatch(x *web.Exchange) error {
	watches, err := s.watchesOf(x)
	if err != nil {
		return err
	}
	var body struct {
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
	}
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	watch, err := watches.Start(x.R.Context(), body.Path, body.Recursive)
	if err != nil {
		return err
	}
	self := filesPath + "/watches/" + watch.ID
	return x.Answer(http.StatusOK, watchBody{
		watch.ID, watch.Path, watch.Recursive, watch.Cursor.String(), watchLinks{self, self + "/events"},
	})
}

// watchesOf returns the watches for whom they are there.
func (s *Server) watchesOf(x *web.Exchange) (*files.Watches, error) {
	if _, err := s.filesOf(x); err != nil {
		return nil, err
	}
	if s.opts.Watches == nil {
		return nil, reprise.ErrNotFound
	}
	return s.opts.Watches, nil
}

// watchEvents answers with what happens below a directory.
func (s *Server) watchEvents(x *web.Exchange) error {
	watches, err := s.watchesOf(x)
	if err != nil {
		return err
	}
	stream, release, err := watches.Follow(x.R.Context(), x.R.PathValue("id"))
	if err != nil {
		return err
	}
	x.AtEnd(release)
	return s.follow(x, &reading{stream: stream})
}

// removeWatch forgets a watch.
func (s *Server) removeWatch(x *web.Exchange) error {
	watches, err := s.watchesOf(x)
	if err != nil {
		return err
	}
	if err := watches.Remove(x.R.Context(), x.R.PathValue("id")); err != nil {
		return err
	}
	return x.Done()
}

// fileRoutes returns the routes of files, which exist with Options.Files. A sender that may start commands may also
// write files, because each permits the other.
func (s *Server) fileRoutes(m *web.Mux) {
	const read, write = identity.ScopeRead, identity.ScopeRun
	list := []string{"path", "limit", "cursor"}
	upload := []string{"path", "offset", "size", "sha256", "mode", "overwrite", "parents"}
	events := []string{"after", "cursor", "types", "gap", "cursors", "limit", "wait"}
	m.Handle("GET", filesPath, read, list, s.listFiles)
	m.Handle("DELETE", filesPath, write, []string{"path", "recursive"}, s.removeFile)
	m.Handle("GET", filesPath+"/stat", read, []string{"path", "checksum"}, s.showFile)
	m.Handle("GET", filesPath+"/search", read, append([]string{"name", "text"}, list...), s.searchFiles)
	m.Handle("GET", filesPath+"/content", read, []string{"path"}, s.readFile)
	m.Handle("PUT", filesPath+"/content", write, upload, s.writeFile)
	m.Handle("GET", filesPath+"/upload", write, []string{"path", "size", "sha256"}, s.showUpload)
	m.Handle("POST", filesPath+"/move", write, nil, s.moveFile)
	m.Handle("POST", filesPath+"/directory", write, nil, s.makeDirectory)
	m.Handle("POST", filesPath+"/permissions", write, nil, s.setFileMode)
	m.Handle("POST", filesPath+"/watches", read, nil, s.startWatch)
	m.Handle("GET", filesPath+"/watches/{id}/events", read, events, s.watchEvents)
	m.Handle("DELETE", filesPath+"/watches/{id}", write, nil, s.removeWatch)
}
