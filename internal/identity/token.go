package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"reprise"
)

// Verifier judges credentials. Implementations are safe for concurrent use.
type Verifier interface {
	// Verify says whose credential it is: what follows "Bearer " in the
	// header Authorization. The Principal names the credential in its field
	// Credential. The error wraps ErrUnauthenticated if the credential is not good.
	Verify(ctx context.Context, credential string) (Principal, error)
	// Current reports whether the credential that a Principal was verified by,
	// an hour or a restart ago, is still good.
	Current(ctx context.Context, p Principal) bool
}

// Bounds of a token's length, inclusive.
const (
	minTokenBytes = 16
	maxTokenBytes = 4096
)

// Token is a Verifier that knows one token, whose bearer is the default tenant and may do everything.
type Token struct {
	digest [sha256.Size]byte
}

// NewToken returns the Verifier of one token: 16 to 4,096 printable ASCII
// characters without spaces. The error wraps reprise.ErrInvalid and does not show the token.
func NewToken(token string) (*Token, error) {
	if len(token) < minTokenBytes || len(token) > maxTokenBytes {
		return nil, fmt.Errorf("%w: a token of %d characters, %d to %d are taken",
			reprise.ErrInvalid, len(token), minTokenBytes, maxTokenBytes)
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return nil, fmt.Errorf("%w: a token with a space or a character that is not printable ASCII",
				reprise.ErrInvalid)
		}
	}
	return &Token{digest: sha256.Sum256([]byte(token))}, nil
}

// Verify implements Verifier. Its time does not depend on how much of the
// credential is right: digests are compared, and those in constant time.
func (t *Token) Verify(_ context.Context, credential string) (Principal, error) {
	digest := sha256.Sum256([]byte(credential))
	if subtle.ConstantTimeCompare(digest[:], t.digest[:]) != 1 {
		return Principal{}, fmt.Errorf("%w: the token is not the one of this server", ErrUnauthenticated)
	}
	return Principal{
		Name: "token", Tenant: reprise.DefaultTenant, Scopes: AllScopes(), Credential: t.name(),
	}, nil
}

// Current implements Verifier: what was issued for another token is void.
func (t *Token) Current(_ context.Context, p Principal) bool { return p.Credential == t.name() }

// name identifies the token among all tokens and says nothing about it: the
// digest of a digest, cut short.
func (t *Token) name() string {
	again := sha256.Sum256(t.digest[:])
	return hex.EncodeToString(again[:8])
}

// LoadToken reads the token in the file at path. If there is no such file, it
// makes one with a random token of 130 bits that its owner alone can read. The token
// is as NewToken takes it; the error wraps reprise.ErrInvalid if it is not.
func LoadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createToken(path); err != nil {
			return "", err
		}
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if _, err := NewToken(token); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return token, nil
}

// createToken writes a new token to path, unless another process was faster. The
// file appears whole or not at all.
func createToken(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(rand.Text() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
