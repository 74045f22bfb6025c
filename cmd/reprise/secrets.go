package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"reprise"
	"reprise/internal/apikey"
	"reprise/internal/execution"
	"reprise/internal/gateway/credential"
	"reprise/internal/identity"
	"reprise/internal/journal"
	"reprise/internal/logins"
	"reprise/internal/serverproof"
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
func (c *serveCmd) keys() (*reprise.Keyset, error) {
	if err := c.checkShared(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.secrets(), 0o700); err != nil {
		return nil, fmt.Errorf("directory of the secrets: %w", err)
	}
	path := filepath.Join(c.secrets(), keysFile)
	keys, err := reprise.LoadKeyset(path)
	if err != nil {
		return nil, err
	}
	return keys, checkPrivate(path, "remove it for new keys, with which no cursor stays valid, if others may have read it")
}

// checkPrivate refuses a secret that others may read. otherwise says how to replace it.
func checkPrivate(path, otherwise string) error {
	info, err := os.Stat(path)
	if err != nil || !othersMayRead(path, info) {
		return err
	}
	return fmt.Errorf("%s may be read by others (%v): chmod 600 it, and %s", path, info.Mode(), otherwise)
}

// apiKeysFile and revokedFile are in the data directory: the API keys where no replicas share a store, and which
// credentials were revoked where they do.
const (
	apiKeysFile = "api-keys"
	revokedFile = "revoked"
)

// apiKeyJournal is where a server with a data directory keeps its API keys.
func apiKeyJournal(log *reprise.Log, dir string) (journal.Journal, *apikey.Options) {
	if log != nil && log.Shared() {
		return apikey.Stream(log), &apikey.Options{Revoked: filepath.Join(dir, revokedFile)}
	}
	return journal.File(filepath.Join(dir, apiKeysFile)), &apikey.Options{}
}

// openAPIKeys adds the API keys to what the token is known by. Where everybody is let in there are none.
func (s *server) openAPIKeys(ctx context.Context, token identity.Verifier) (identity.Verifier, error) {
	if token == nil {
		return nil, nil // that lets everybody in
	}
	from, opts := apiKeyJournal(s.log, s.dir.path)
	opts.Logger = s.logger
	var err error
	if s.keys, err = apikey.Open(ctx, from, opts); err != nil {
		return nil, err
	}
	if s.quotas != nil { // those of a server that runs something
		s.quotas.keys.Store(s.keys)
	}
	return identity.Verifiers{token, s.keys}, nil
}

// lives says how long principals may have tasks and sessions, or is nil where there are no API keys.
func (s *server) lives() func(reprise.Tenant, string) context.Context {
	if s.keys == nil {
		return nil
	}
	return s.keys.Life
}

// openLogins opens what knows which logins have ended: in the store where replicas share it.
func (s *server) openLogins(ctx context.Context) (err error) {
	from := journal.File(filepath.Join(s.dir.path, loginsFile))
	if s.log.Shared() {
		from = logins.Stream(s.log)
	}
	s.logins, err = logins.Open(ctx, from)
	return err
}

// principalSecrets reads the secrets that are kept for principals below a directory: each in a folder of its tenant and
// of its own.
func principalSecrets(dir string) credential.Secrets {
	return func(p *credential.Principal, secret string) (string, error) {
		folder := path.Join(folderName(p.Tenant), folderName(p.Name))
		return execution.ReadSecret(filepath.Join(dir, principalsDir), reprise.Tenant(folder), secret)
	}
}

// folderName is the name of a folder that stands for a name and for no other, also where file systems do not tell upper
// case from lower case. Bytes but lower-case letters, digits, '-', '_', '@' and '.', which is not the first, are
// written as % and two digits.
func folderName(name string) string {
	var folder strings.Builder
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '@' || c == '.' && i > 0 {
			folder.WriteByte(c)
		} else {
			fmt.Fprintf(&folder, "%%%02x", c)
		}
	}
	return folder.String()
}

// proofToken is the token that the server proves to know, "" for none.
func (s *server) proofToken(c *serveCmd) string {
	text, err := os.ReadFile(filepath.Join(c.secrets(), tokenFile))
	if err != nil {
		return "" // of a server that lets everybody in
	}
	token := strings.TrimSpace(string(text))
	if len(token) < serverproof.MinToken {
		s.logger.Warn("the token is short enough to be guessed from a proof: the server proves nothing to clients of this machine",
			"advice", fmt.Sprintf("put %d characters or more into %s, or remove the file for a new token",
				serverproof.MinToken, tokenFile))
		return ""
	}
	return token
}

// verifier knows the token, which is made on the first start.
func (c *serveCmd) verifier() (identity.Verifier, error) {
	path := filepath.Join(c.secrets(), tokenFile)
	token, err := identity.LoadToken(path)
	if err != nil {
		return nil, err
	}
	if err := checkPrivate(path, "remove it for a new token if others may have read it"); err != nil {
		return nil, err
	}
	return identity.NewToken(token)
}
