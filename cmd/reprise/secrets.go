package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"reprise"
	"reprise/internal/identity"
)

// secrets is the directory of the token and the keys.
func (c *serveCmd) secrets() string {
	dir := c.Secrets
	if dir == "" {
		dir = c.Data
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// keys are those that sign cursors; they are made on the first start.
func (c *serveCmd) keys() (*reprise.Keys, error) {
	if err := c.checkShared(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.secrets(), 0o700); err != nil {
		return nil, fmt.Errorf("directory of the secrets: %w", err)
	}
	return reprise.LoadKeys(filepath.Join(c.secrets(), keysFile))
}

// verifier knows the token, which is made on the first start.
func (c *serveCmd) verifier() (identity.Verifier, error) {
	path := filepath.Join(c.secrets(), tokenFile)
	token, err := identity.LoadToken(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&(fs.ModePerm&0o077) != 0 {
		return nil, fmt.Errorf("%s may be read by others (%v): chmod 600 it, and remove it for a new token if others may have read it", path, info.Mode())
	}
	return identity.NewToken(token)
}
