package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"reprise"
	"reprise/internal/datadir"
	"reprise/internal/durable"
	"reprise/internal/execution"
	"reprise/internal/identity"
)

// secretsCmd creates the secrets that replicas of a store share, and manages the secrets of commands.
type secretsCmd struct {
	Make   secretsMakeCmd   `cmd:"" default:"withargs" help:"Make the token and the keys that the replicas of a store share; the same as \"reprise secrets DIR\"."`
	Rotate secretsRotateCmd `cmd:"" help:"Replace the token, or the key that signs cursors."`
	List   secretsListCmd   `cmd:"" help:"List the names of the secrets that commands may get."`
	Set    secretsSetCmd    `cmd:"" help:"Store a secret; its value is read from stdin."`
	Rm     secretsRmCmd     `cmd:"" help:"Remove secrets."`
}

// Help is shown below the usage.
func (*secretsCmd) Help() string {
	return `"reprise secrets DIR" makes a token and the keys that sign cursors. The other verbs manage named secrets, which a command gets as variables: reprise run --secret TOKEN=NAME. Each secret is a file that only its owner can read, in named/TENANT/ of the directory that --secrets of serve names. Each machine that runs commands needs the file. A change applies to the next command. With --principal, the verbs manage the secrets of one principal in principals/TENANT/PRINCIPAL/, which "reprise gateway" inserts into the headers and variables of upstreams.`
}

// secretsMakeCmd creates the token and the keys.
type secretsMakeCmd struct {
	Dir string `arg:"" placeholder:"DIR" help:"Directory to make them in."`
}

// Help is shown below the usage.
func (*secretsMakeCmd) Help() string {
	return `Makes a token and the keys that sign cursors, readable by their owner only, and prints the names of the files. Existing files are not changed. Copy the directory to each machine that serves the same store, and name it there with --secrets.`
}

// Run creates missing secrets.
func (c *secretsMakeCmd) Run() error {
	if err := makeSecrets(c.Dir); err != nil {
		return err
	}
	for _, name := range []string{datadir.TokenFile, datadir.KeysFile} {
		fmt.Fprintln(stdout, filepath.Join(c.Dir, name))
	}
	return nil
}

// secretsRotateCmd replaces the token, or the key that is used from now on.
type secretsRotateCmd struct {
	What   string `arg:"" enum:"token,keys,store.keys" help:"token, keys or store.keys."`
	Dir    string `arg:"" optional:"" placeholder:"DIR" help:"Directory of the secrets, such as /etc/reprise/secrets. Default: the data directory of the server."`
	Forget bool   `help:"With keys: remove all keys but the newest. What they have signed is refused from then on: cursors, logins and tickets."`
}

// Help is shown below the usage.
func (*secretsRotateCmd) Help() string {
	return `The server reads the files when it starts, so start it again afterwards ("systemctl restart reprise"); commands go on. With replicas, copy the file to each machine first.

"token" makes another token; the old one, and its logins and tickets, end with the restart. "keys" puts a new key in front of the file: it signs cursors, logins and tickets from then on, and those that older keys have signed stay valid, until --forget removes these. Until all replicas have the new file, one that has not refuses what the new key has signed. "store.keys" puts a new key in front that encrypts what is written from then on; the older ones are still needed to read what is stored.`
}

// Run replaces the file.
func (c *secretsRotateCmd) Run() error {
	path := filepath.Join(cmp.Or(c.Dir, defaultDataDir()), c.What)
	if c.Forget && c.What != datadir.KeysFile {
		return usage("--forget is for keys")
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	next := []byte(rand.Text() + "\n")
	if c.What != datadir.TokenFile {
		if next, err = rotatedKeys(path, old, c.Forget); err != nil {
			return err
		}
	}
	if err := durable.Replace(path, next); err != nil {
		return err
	}
	fmt.Fprintln(stdout, path)
	fmt.Fprintln(os.Stderr, "start the server again: it reads this file when it starts")
	return nil
}

// rotatedKeys returns the text of a file of keys with a new one in front, or without all but the first.
func rotatedKeys(path string, old []byte, forget bool) ([]byte, error) {
	keys, err := reprise.ParseKeyset(old)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !forget {
		secret := make([]byte, 32)
		rand.Read(secret)
		fresh := fmt.Sprintf("%s %s\n", rand.Text()[:8], base64.StdEncoding.EncodeToString(secret))
		return append([]byte(fresh), old...), nil
	}
	for line := range bytes.Lines(old) {
		if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte(keys.IDs()[0]+" ")) {
			return append(line, '\n'), nil
		}
	}
	return nil, fmt.Errorf("%s: its first key was not found", path)
}

// namedPlace names the folder of the secrets.
type namedPlace struct {
	Tenant    string `default:"default" placeholder:"NAME" help:"Tenant whose commands may get the secrets, or tenant of the principal. Default: ${default}."`
	Principal string `placeholder:"NAME" help:"Secrets with which \"reprise gateway\" calls upstreams for a principal, such as ci.k7x2m9q4wd or alice@corp. Commands do not get them."`
	Secrets   string `placeholder:"DIR" help:"The directory that --secrets of serve or gateway names. Default: its data directory."`
	Data      string `placeholder:"DIR" help:"Data directory of the server. Default: reprise in $$XDG_STATE_HOME or ~/.local/state, and with --principal gateway in that."`
}

// dir returns the folder of the secrets of the tenant, or of the principal.
func (p *namedPlace) dir() (string, error) {
	if err := (reprise.StreamKey{Tenant: reprise.Tenant(p.Tenant), Name: "x"}).Validate(); err != nil {
		return "", usage("--tenant: %w", err)
	}
	if p.Principal != "" {
		base := cmp.Or(p.Secrets, p.Data, defaultGatewayDir())
		return filepath.Join(base, datadir.PrincipalsDir, datadir.Folder(p.Tenant), datadir.Folder(p.Principal)), nil
	}
	return filepath.Join(cmp.Or(p.Secrets, p.Data, defaultDataDir()), datadir.NamedDir, p.Tenant), nil
}

// file returns the path of a secret.
func (p *namedPlace) file(name string) (string, error) {
	if err := execution.CheckSecretName(name); err != nil {
		return "", usage("%q: %w", name, err)
	}
	dir, err := p.dir()
	return filepath.Join(dir, name), err
}

// secretsListCmd lists the names.
type secretsListCmd struct {
	namedPlace `embed:""`
}

// Run lists them.
func (c *secretsListCmd) Run() error {
	dir, err := c.dir()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if execution.CheckSecretName(e.Name()) == nil {
			fmt.Fprintln(stdout, e.Name())
		}
	}
	return nil
}

// secretsSetCmd stores a secret.
type secretsSetCmd struct {
	namedPlace `embed:""`

	Name string `arg:"" help:"Name of the secret: letters, digits, '.', '_' and '-'."`
}

// maxSecretInput is larger than any valid secret.
const maxSecretInput = 1 << 20

// Run writes the file of the secret atomically.
func (c *secretsSetCmd) Run() error {
	path, err := c.file(c.Name)
	if err != nil {
		return err
	}
	value, err := io.ReadAll(io.LimitReader(os.Stdin, maxSecretInput))
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".set-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(value)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// Read it as a server would, so that an unusable secret is refused now.
	folder := reprise.Tenant(filepath.Base(dir))
	if _, err := execution.ReadSecret(filepath.Dir(dir), folder, filepath.Base(f.Name())); err != nil {
		return fmt.Errorf("the value cannot be used: %w", err)
	}
	return durable.Rename(f.Name(), path)
}

// secretsRmCmd removes secrets.
type secretsRmCmd struct {
	namedPlace `embed:""`

	Names []string `arg:"" name:"name" help:"Names of the secrets."`
}

// Run removes as many of them as it can.
func (c *secretsRmCmd) Run() error {
	var errs []error
	for _, name := range c.Names {
		path, err := c.file(name)
		if err == nil {
			err = os.Remove(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s has no secret %q", cmp.Or(c.Principal, "the tenant "+c.Tenant), name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// makeSecrets creates the token and the keys in a directory, unless they exist.
func makeSecrets(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory of the secrets: %w", err)
	}
	if _, err := reprise.LoadKeyset(filepath.Join(dir, datadir.KeysFile)); err != nil {
		return err
	}
	_, err := identity.LoadToken(filepath.Join(dir, datadir.TokenFile))
	return err
}
