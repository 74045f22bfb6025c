package apikey

import (
	"bytes"
	"sync"

	"reprise/internal/journal"
)

// deadList are the credentials that were revoked or replaced, as this replica remembers them on its disk.
type deadList struct {
	path string // "" for none

	mu    sync.Mutex
	known map[string]bool
}

// loadDead reads the list in the file at path, a credential a line.
func loadDead(path string) (*deadList, error) {
	d := &deadList{path: path, known: map[string]bool{}}
	if path == "" {
		return d, nil
	}
	lines, err := journal.ReadLines(path)
	for line := range bytes.Lines(lines) {
		d.known[string(bytes.TrimSpace(line))] = true
	}
	return d, err
}

func (d *deadList) has(credential string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[credential]
}

// add remembers a credential. Where the disk fails, it is remembered as long as the process lives.
func (d *deadList) add(credential string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[credential] {
		return nil
	}
	d.known[credential] = true
	if d.path == "" {
		return nil
	}
	return journal.AppendLine(d.path, []byte(credential))
}
