package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"reprise"
)

// CursorStore keeps the cursor of one reader of one stream. A loop calls its methods one at a
// time and never while its body runs, though not always from the same goroutine; what it saves belongs to that
// loop alone. FollowOptions.SaveEvery says how often it saves.
type CursorStore interface {
	// Load returns the cursor that was saved last, "" if there is none.
	Load(ctx context.Context) (string, error)
	// Save keeps cursor in place of the one before. When it has returned nil, a
	// process that is killed finds cursor again.
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

// FileCursor keeps a cursor in the file of this name, as one line of text. A save writes
// the file name + ".tmp" and renames it, with both the file and its directory
// synced, so that there is an old cursor or a new one and nothing between.
// Two processes must not use one file at the same time.
type FileCursor string

// maxCursorFile is far more than any cursor takes.
const maxCursorFile = 4 << 10

// Load implements CursorStore. A file that holds no cursor is an error, for beginning
// anew in silence would do everything twice; reprise.ErrCursorMalformed is in it.
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
	temporary := string(f) + ".tmp"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(cursor + "\n")
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, string(f)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(string(f)))
}

// syncDir makes a rename in a directory last. Windows cannot sync a directory.
func syncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// isCursorText is true for what can be sent as a cursor: printable ASCII.
func isCursorText(s string) bool {
	return s != "" && len(s) <= 1024 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
