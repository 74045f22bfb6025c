package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"reprise"
	"reprise/internal/durable"
)

// CursorStore stores the cursor of one reader of one stream. A loop calls its methods one at a
// time and never while the body of the loop runs, but not always from the same goroutine. The store must not be
// shared between loops. FollowOptions.SaveEvery says how often the loop saves.
type CursorStore interface {
	// Load returns the cursor that was saved last, or "" if there is none.
	Load(ctx context.Context) (string, error)
	// Save replaces the stored cursor. After it has returned nil, a
	// process that is killed and started again loads this cursor.
	Save(ctx context.Context, cursor string) error
}

// MemoryCursor keeps a cursor in memory, for loops that follow each other within one
// process. The zero value is ready and safe for concurrent use.
type MemoryCursor struct {
	mu     sync.Mutex
	cursor string
}

// Load implements CursorStore.
func (m *MemoryCursor) Load(context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cursor, nil
}

// Save implements CursorStore.
func (m *MemoryCursor) Save(_ context.Context, cursor string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cursor = cursor
	return nil
}

// FileCursor stores a cursor in the file of this name, as one line of text. Save writes
// the file name + ".tmp" and renames it, and syncs both the file and its directory.
// So the file always has either the old cursor or the new one.
// Two processes must not use one file at the same time.
type FileCursor string

// maxCursorFile is far more than any cursor takes.
const maxCursorFile = 4 << 10

// Load implements CursorStore. A file without a valid cursor is an error that wraps reprise.ErrCursorMalformed,
// because starting over silently would repeat everything.
func (f FileCursor) Load(context.Context) (string, error) {
	file, err := os.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCursorFile))
	if err != nil {
		return "", err
	}
	cursor, whole := strings.CutSuffix(string(text), "\n")
	if !whole || !isCursorText(cursor) {
		return "", fmt.Errorf("%w: the file %s", reprise.ErrCursorMalformed, string(f))
	}
	return cursor, nil
}

// Save implements CursorStore.
func (f FileCursor) Save(_ context.Context, cursor string) error {
	return durable.Write(string(f), []byte(cursor+"\n"))
}

// isCursorText reports whether s can be sent as a cursor: printable ASCII.
func isCursorText(s string) bool {
	return s != "" && len(s) <= 1024 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
