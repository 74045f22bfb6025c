// Package artifact finds and reads the files of an execution that are kept with it.
//
// The files are read outside of the isolation of the command that has written them, and the command decides what lies
// under every name. Therefore a name is looked up once: the working directory is opened before the command is started,
// and everything else is opened relative to a directory that is open already, one element of a path at a time, without
// following a link.
package artifact

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"reprise/internal/pattern"
	"reprise/internal/wire"
)

// Collection says which files are kept.
type Collection struct {
	// Dir is where the paths begin.
	Dir string `json:"dir"`
	// Place is the identity of Dir, which Open sets.
	Place ID `json:"place,omitzero"`
	// Patterns are paths below Dir as of path.Match. One that names a directory means all files below it.
	Patterns []string `json:"patterns"`
	// Hidden are files and directories that are never read.
	Hidden []string `json:"hidden,omitempty"`
	// Masked are identities of hidden files and directories, which are never read under any name.
	Masked []ID `json:"masked,omitempty"`
	// MaxBytes bounds all files together.
	MaxBytes int64 `json:"max_bytes"`

	dir      *os.File      // nil while it is not open
	lacks    string        // why dir is nil
	patience time.Duration // in place of Patience, if it is not 0
}

// ID is the identity of a file or directory, whatever its name is.
type ID struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// File is one that was collected.
type File = wire.Artifact

const (
	// MaxPatterns is how many patterns may be asked for.
	MaxPatterns = 32
	// MaxFiles is how many files are kept.
	MaxFiles = 100
	// Patience is how long files are looked for.
	Patience = 10 * time.Second
	// ChunkBytes is how large the pieces are that keep is called with, but for the last one of a file.
	ChunkBytes = 64 << 10

	// maxNames bounds how many names are looked at.
	maxNames = 100_000
	// maxNameBytes bounds the paths of the files that are found.
	maxNameBytes = 4 << 20
	// maxDepth is how many directories may lie within each other. Each is an open file.
	maxDepth = 64
	// maxNotes bounds the notes.
	maxNotes = 100
)

// Check returns why a pattern cannot be used.
func Check(name string) error {
	switch err := pattern.CheckGlob(name); {
	case err != nil:
		return err
	case name == "" || strings.IndexByte(name, 0) >= 0:
		return errors.New("is empty or holds a NUL")
	case !fs.ValidPath(strings.TrimSuffix(name, "/")):
		return errors.New("is not a path below the working directory")
	}
	return nil
}
