package mcpserver

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots

import (
	"context"
	"net/url"
	"path"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/execution"
)

// DirectoryHeader is a header of a request: the directory of a client on this machine, an absolute path with percent
// encoding. It is to a call what the parameter cwd is, which takes precedence, and gives no right that cwd does not.
const DirectoryHeader = "Reprise-Directory"

// directory returns the directory in which a requested run works: cwd, below the first root of the client if it is on
// this machine and has roots, else below its own directory.
func (s *Server) directory(ctx context.Context, req mcp.Request, cwd string) (string, error) {
	if path.IsAbs(cwd) {
		return cwd, nil
	}
	base := s.opts.Directory
	if extra := req.GetExtra(); extra != nil && extra.Header.Get(DirectoryHeader) != "" {
		var err error
		base, err = url.PathUnescape(extra.Header.Get(DirectoryHeader))
		if err != nil || !path.IsAbs(base) {
			return "", &execution.FieldError{
				Field: DirectoryHeader, Reason: "it must be an absolute path with percent encoding",
			}
		}
	}
	if base == "" { // it may be on another machine
		return cwd, nil
	}
	if session, ok := req.GetSession().(*mcp.ServerSession); ok {
		if root := s.root(ctx, session); root != "" {
			base = root
		}
	}
	return path.Join(base, cwd), nil
}

// root returns the path of the first root of a client, or "" if it has none. A client is asked once, and again after it
// has said that its roots have changed.
func (s *Server) root(ctx context.Context, session *mcp.ServerSession) string {
	p := session.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.RootsV2 == nil || p.ProtocolVersion >= "2026-07-28" {
		return ""
	}
	root, known := s.roots.Load(clientOf(session))
	if known && root != unknownRoot {
		return root
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.rootsWithin)
	defer cancel()
	root = ""
	list, err := session.ListRoots(ctx, nil)
	if err != nil {
		s.opts.Logger.Warn("the MCP client does not answer which roots it has; runs work in its own directory",
			"error", err)
	} else {
		root = firstDirectory(list.Roots)
	}
	s.roots.Store(clientOf(session), root)
	return root
}

// aClient is one client: over HTTP each request has a session of the SDK, and all of a client have the same id.
type aClient struct {
	id      string
	session *mcp.ServerSession // if the id is "", as on stdio
}

func clientOf(session *mcp.ServerSession) aClient {
	if id := session.ID(); id != "" {
		return aClient{id: id}
	}
	return aClient{session: session}
}

// unknownRoot stands for the root of a client that has to be asked again.
const unknownRoot = "?"

// defaultRootsWithin is how long a client may take to say which roots it has.
const defaultRootsWithin = 5 * time.Second

// firstDirectory returns the path of the first root that is one of this machine.
func firstDirectory(roots []*mcp.Root) string {
	for _, root := range roots {
		u, err := url.Parse(root.URI)
		if err == nil && u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && path.IsAbs(u.Path) {
			return path.Clean(u.Path)
		}
	}
	return ""
}
