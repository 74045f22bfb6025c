package main

import (
	"fmt"
	"os"
	"path/filepath"

	"reprise"
	"reprise/internal/identity"
)

// secretsCmd makes what all replicas of a store share.
type secretsCmd struct {
	Dir string `arg:"" placeholder:"DIR" help:"Directory to make them in."`
}

// Help is shown below the usage.
func (*secretsCmd) Help() string {
	return `Makes a token and the keys that sign cursors, for their owner alone, and prints their files. What is there already stays. Copy the directory to each machine that serves the same store, and name it there with --secrets.`
}

// Run makes what is missing.
func (c *secretsCmd) Run() error {
	if err := makeSecrets(c.Dir); err != nil {
		return err
	}
	for _, name := range []string{tokenFile, keysFile} {
		fmt.Fprintln(stdout, filepath.Join(c.Dir, name))
	}
	return nil
}

// makeSecrets makes the token and the keys in a directory, unless they are there.
func makeSecrets(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory of the secrets: %w", err)
	}
	if _, err := reprise.LoadKeys(filepath.Join(dir, keysFile)); err != nil {
		return err
	}
	_, err := identity.LoadToken(filepath.Join(dir, tokenFile))
	return err
}

// checkShared refuses to make secrets for one replica alone where a directory of shared ones is named: clients would be
// refused by all others.
func (c *serveCmd) checkShared() error {
	if c.Secrets == "" || !isRemote(c.Store) {
		return nil
	}
	for _, name := range []string{keysFile, tokenFile} {
		if name == tokenFile && c.Auth != "token" {
			continue
		}
		if _, err := os.Stat(filepath.Join(c.secrets(), name)); err != nil {
			return usage("--secrets: %w; make them once with \"%s secrets %s\", and copy them to each machine", err, self(),
				c.Secrets)
		}
	}
	return nil
}
