// Package contexts keeps the servers that the user has logged in to, in contexts.json of the user's directory for
// configuration.
package contexts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"reprise/internal/datadir"
	"reprise/internal/durable"
)

// Server is a server with the token for it. They stay together: the token goes to no other server.
type Server struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// Contexts are the servers that the user has logged in to.
type Contexts struct {
	Current string            `json:"current,omitempty"`
	Saved   map[string]Server `json:"contexts"`
}

// file is the path of the file of the contexts.
func file() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "reprise", "contexts.json"), nil
}

// Load reads the contexts; there are none without a file. It refuses a file that others may read.
func Load() (*Contexts, error) {
	all := &Contexts{Saved: map[string]Server{}}
	path, err := file()
	if err != nil {
		return all, nil //nolint:nilerr // a process without a home has no contexts either
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // not ours
		return all, nil
	case err != nil:
		return nil, err
	case datadir.OthersMayRead(path, info):
		return nil, fmt.Errorf("%s holds tokens and may be read by others (%v): chmod 600 it", path, info.Mode())
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if all.Saved == nil { // null
		all.Saved = map[string]Server{}
	}
	return all, nil
}

// Save writes the contexts into a file that only its owner may read.
func (a *Contexts) Save() error {
	path, err := file()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(path, append(text, '\n'))
}

// Names returns the names of the contexts, sorted.
func Names() []string {
	all, err := Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(all.Saved))
}
