package resumetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Server is the description that a server gives of itself.
type Server struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Probe checks the prerequisites: an MCP server with sessions and with the tool answers at the URL of the target, a
// call of the tool counts, and its messages have ids. The error names the missing prerequisite and is meant for a
// person.
func Probe(ctx context.Context, target Target) (Server, error) {
	target = target.withDefaults()
	defer target.Client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, version := range slices.Backward(target.Versions) {
		r := &run{ctx: ctx, target: target, version: version}
		server, err := r.probe()
		r.close()
		if _, other := errors.AsType[notApplicable](err); !other {
			return server, err
		}
	}
	return Server{}, errorf("the server at %s speaks none of the versions %s",
		target.URL, strings.Join(target.Versions, ", "))
}

func (r *run) probe() (Server, error) {
	server, err := r.greet()
	if err != nil {
		return Server{}, err
	}
	s, err := r.open()
	if err != nil {
		return Server{}, err
	}
	defer s.end()
	if err := s.offers(r.target.Tool.Name); err != nil {
		return Server{}, err
	}
	c, st, err := s.start(2, 0)
	if err != nil {
		return Server{}, errorf("the tool %q was not answered with a stream, so there is nothing to resume: %w",
			r.target.Tool.Name, err)
	}
	if err := c.finish(st); err != nil {
		return Server{}, errorf("the tool %q does not count to 2: %w", r.target.Tool.Name, err)
	}
	if c.lastID == "" {
		return Server{}, errorf("no message of the server has an event id, so nothing can be resumed: has it an event store?")
	}
	return server, nil
}

// greet initializes a session and ends it, and tells apart the reasons why that may be impossible.
func (r *run) greet() (Server, error) {
	s := &session{run: r, url: r.target.URL, header: r.target.Header}
	st, err := s.post(r.initialize())
	if err != nil {
		return Server{}, fmt.Errorf("nothing answers at %s: %v", s.url, rootOf(err))
	}
	defer st.drop()
	s.id = st.header.Get("Mcp-Session-Id")
	var answer struct {
		Result *struct{ ServerInfo Server }
		Error  *struct{ Message string }
	}
	for st.status == http.StatusOK && answer.Result == nil && answer.Error == nil {
		e, err := st.next(r.target.Patience)
		if err != nil || len(e.data) > 0 && json.Unmarshal(e.data, &answer) != nil {
			return Server{},
				errorf("no MCP server at %s: initialize was answered with something else (Content-Type %q)",
					s.url, st.header.Get("Content-Type"))
		}
	}
	switch {
	case st.status == http.StatusUnauthorized || st.status == http.StatusForbidden:
		return Server{}, errorf("the server at %s wants other credentials: status %d", s.url, st.status)
	case st.status != http.StatusOK:
		return Server{}, errorf("no MCP server at %s: initialize was answered with status %d", s.url, st.status)
	case answer.Error != nil:
		return Server{}, errorf("initialize was answered with an error: %s", answer.Error.Message)
	case s.id == "":
		return Server{}, errorf("the server at %s keeps no sessions (no Mcp-Session-Id), so nothing can be resumed",
			s.url)
	}
	s.end()
	return answer.Result.ServerInfo, nil
}

// rootOf returns the error inside an error of http.Client, which repeats the URL.
func rootOf(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// offers checks that the server has a tool.
func (s *session) offers(tool string) error {
	var names []string
	for cursor := ""; ; {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		s.calls++
		st, err := s.post(map[string]any{"jsonrpc": "2.0", "id": s.calls, "method": "tools/list", "params": params})
		if err != nil {
			return errorf("tools/list: %w", err)
		}
		var answer struct {
			Result *struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
			Error *struct{ Message string }
		}
		for answer.Result == nil && answer.Error == nil {
			e, err := st.next(s.run.target.Patience)
			if err != nil {
				return errorf("tools/list: %w", err)
			}
			_ = json.Unmarshal(e.data, &answer) // a priming event has no data
		}
		st.drop()
		if answer.Error != nil {
			return errorf("tools/list: %s", answer.Error.Message)
		}
		for _, t := range answer.Result.Tools {
			if names = append(names, t.Name); t.Name == tool {
				return nil
			}
		}
		if cursor = answer.Result.NextCursor; cursor == "" || len(names) > 1000 {
			return errorf("the server has no tool %q; it has %s", tool, strings.Join(names, ", "))
		}
	}
}

// end ends the session, if the server lets its clients do that.
func (s *session) end() {
	if st, err := s.send(http.MethodDelete, "", nil); err == nil {
		st.drop()
	}
}
