package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Report is what a collector sends: chunks, and then what they are.
type Report struct {
	Chunk []byte `json:"chunk,omitempty"`

	Done  bool     `json:"done,omitempty"`
	Files []File   `json:"files,omitempty"`
	Notes []string `json:"notes,omitempty"`
	Error string   `json:"error,omitempty"`
}

// Serve collects the files in the working directory of this process, which is a collector. It sends Reports.
func (c *Collection) Serve(ctx context.Context, send func(any) error) error {
	root := c.Dir == "/" // the root of a file tree that was made for the command is another directory
	c.Dir = "."
	if root {
		c.Open()
	} else {
		c.OpenAgain()
	}
	defer c.Close()
	files, notes, err := c.Collect(ctx, func(chunk []byte) error { return send(Report{Chunk: chunk}) })
	r := Report{Done: true, Files: files, Notes: notes}
	if err != nil {
		r = Report{Done: true, Error: err.Error()}
	}
	return send(r)
}

// errReport is why what a collector has sent is not kept.
var errReport = errors.New("the collector has sent something else than files within the bounds")

// Receive is Collect by what a collector sends, of which nothing is taken for granted.
func (c *Collection) Receive(receive func(any) error, keep func(chunk []byte) error) ([]File, []string, error) {
	var chunks []int
	room := c.MaxBytes
	for {
		var r Report
		if err := receive(&r); err != nil {
			return nil, nil, fmt.Errorf("the collector has ended: %w", err)
		}
		switch {
		case r.Done && r.Error != "":
			return nil, nil, errors.New(r.Error)
		case r.Done:
			if !describes(r.Files, chunks) || len(r.Notes) > MaxPatterns+maxNotes+2 {
				return nil, nil, errReport
			}
			return r.Files, r.Notes, nil
		}
		room -= int64(len(r.Chunk))
		if len(r.Chunk) == 0 || len(r.Chunk) > ChunkBytes || room < 0 {
			return nil, nil, errReport
		}
		chunks = append(chunks, len(r.Chunk))
		if err := keep(r.Chunk); err != nil {
			return nil, nil, err
		}
	}
}

// describes reports whether chunks of these sizes are the bytes of files.
func describes(files []File, chunks []int) bool {
	if len(files) > MaxFiles {
		return false
	}
	for _, f := range files {
		if !fs.ValidPath(f.Path) || f.Size < 0 {
			return false
		}
		for left := f.Size; left > 0; chunks = chunks[1:] {
			if len(chunks) == 0 || int64(chunks[0]) != min(left, ChunkBytes) {
				return false
			}
			left -= int64(chunks[0])
		}
	}
	return len(chunks) == 0
}

// Now returns the path that the directory has now, or a *NoDirectoryError.
func (c *Collection) Now() (string, error) {
	if c.dir == nil {
		return "", &NoDirectoryError{c.lacks}
	}
	if c.Dir == "/" {
		return c.Dir, nil
	}
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", c.dir.Fd()))
}

// NoDirectoryError says why there is no directory to collect files from.
type NoDirectoryError struct{ Reason string }

func (e *NoDirectoryError) Error() string { return e.Reason }
