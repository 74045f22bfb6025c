package node

import (
	"cmp"
	"context"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	"reprise/internal/face/durable"
	"reprise/internal/face/e2b"
	"reprise/internal/face/execd"
	"reprise/internal/web"
)

// faces are the parts that speak to clients of other systems, by their names. Their paths begin with the prefix, unless
// the operator says otherwise.
var faces = map[string]struct {
	prefix string
	open   func(n *Node, prefix string) (web.Part, error)
}{
	"durable": {"/v1/stream", newDurable},
	"e2b":     {"/e2b", newE2B},
	"execd":   {"/execd", newExecd},
}

// FaceNames returns the names of the faces, sorted.
func FaceNames() []string { return slices.Sorted(maps.Keys(faces)) }

// openFaces opens the faces that the options name.
func openFaces(_ context.Context, n *Node) error {
	for _, name := range slices.Sorted(maps.Keys(n.Faces)) {
		face, known := faces[name]
		if !known {
			return usage("--face %s: %s are known", name, strings.Join(FaceNames(), ", "))
		}
		prefix := cmp.Or(n.Faces[name], face.prefix)
		ours := strings.HasPrefix(prefix+"/", "/v1/") || strings.HasPrefix(prefix+"/", "/mcp/")
		if prefix == "/" || !path.IsAbs(prefix) || path.Clean(prefix) != prefix || strings.ContainsAny(prefix, "{} ") ||
			ours && prefix != face.prefix {
			return usage("--face %s=%s: a path such as %s is taken, outside /v1 and /mcp", name, prefix, face.prefix)
		}
		part, err := face.open(n, prefix)
		if err != nil {
			return err
		}
		n.routes = append(n.routes, part)
	}
	return nil
}

// newDurable makes the face for clients of Durable Streams.
func newDurable(n *Node, prefix string) (web.Part, error) {
	return durable.API{
		Prefix: prefix, Log: n.log, Reads: n.reads, Heartbeat: cmp.Or(n.Heartbeat, 15*time.Second),
	}, nil
}

// newE2B makes the face for the SDKs of E2B.
func newE2B(n *Node, prefix string) (web.Part, error) {
	dir, home, err := n.directories()
	return e2b.API{Prefix: prefix, Log: n.log, Host: n.host, Reads: n.reads, Files: n.files, Dir: dir, Home: home}, err
}

// newExecd makes the face for the SDKs of OpenSandbox.
func newExecd(n *Node, prefix string) (web.Part, error) {
	a := execd.API{Prefix: prefix, Host: n.host, Reads: n.reads, Files: n.files, Shell: "sh"}
	if _, err := exec.LookPath("bash"); err == nil {
		a.Shell = "bash"
	}
	var err error
	a.Dir, a.Home, err = n.directories()
	return a, err
}

// directories returns the directory of commands, and the home of the user.
func (n *Node) directories() (dir, home string, err error) {
	if dir = n.Executions.Dir; dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return "", "", err
		}
	}
	if home, err = os.UserHomeDir(); err != nil {
		home = dir
	}
	return dir, home, nil
}
