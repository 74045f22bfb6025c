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

	"reprise/internal/face/execd"
	"reprise/internal/web"
)

// faces make the parts that speak to clients of other systems, by their names.
var faces = map[string]func(n *Node, prefix string) (web.Part, error){
	"execd": newExecd,
}

// FaceNames returns the names of the faces, sorted.
func FaceNames() []string { return slices.Sorted(maps.Keys(faces)) }

// openFaces opens the faces that the options name.
func openFaces(_ context.Context, n *Node) error {
	for _, name := range slices.Sorted(maps.Keys(n.Faces)) {
		prefix := cmp.Or(n.Faces[name], "/"+name)
		if faces[name] == nil {
			return usage("--face %s: %s are known", name, strings.Join(FaceNames(), ", "))
		}
		if prefix == "/" || !path.IsAbs(prefix) || path.Clean(prefix) != prefix || strings.ContainsAny(prefix, "{} ") ||
			strings.HasPrefix(prefix+"/", "/v1/") || strings.HasPrefix(prefix+"/", "/mcp/") {
			return usage("--face %s=%s: a path such as /%s is taken, outside /v1 and /mcp", name, prefix, name)
		}
		part, err := faces[name](n, prefix)
		if err != nil {
			return err
		}
		n.routes = append(n.routes, part)
	}
	return nil
}

// newExecd makes the face for the SDKs of OpenSandbox.
func newExecd(n *Node, prefix string) (web.Part, error) {
	a := execd.API{Prefix: prefix, Host: n.host, Reads: n.reads, Files: n.files, Dir: n.Executions.Dir, Shell: "sh"}
	if _, err := exec.LookPath("bash"); err == nil {
		a.Shell = "bash"
	}
	var err error
	if a.Dir == "" {
		if a.Dir, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	if a.Home, err = os.UserHomeDir(); err != nil {
		a.Home = a.Dir
	}
	return a, nil
}
