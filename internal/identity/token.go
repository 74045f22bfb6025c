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
	"strings"

	"reprise"
	"reprise/internal/durable"
)

// Verifier verifies credentials. Implementations are safe for concurrent use. All errors wrap ErrUnauthenticated, or
// reprise.ErrUnavailable if the validity of a credential is currently unknown.
type Verifier interface {
	// Verify says whose credential it is: what follows "Bearer " in the
	// header Authorization. The error is a *GuessError if the credential is wrong.
	Verify(ctx context.Context, credential string) (Principal, error)
	// Current says whose credential it is that was verified an hour or a restart ago, by Principal.Credential.
	Current(ctx context.Context, credential string) (Principal, error)
	// Named returns the current permissions of a principal that was verified before, by its tenant and Principal.Name.
	Named(ctx context.Context, tenant reprise.Tenant, name string) (Principal, error)
}

// errNoCredential is the error for a credential, or a principal, that no longer exists.
var errNoCredential = fmt.Errorf("%w: the credential behind it is no longer in use", ErrUnauthenticated)

// Bounds of a token's length, inclusive.
const (
	minTokenBytes = 16
	maxTokenBytes = 4096
)

// Token is a Verifier that knows one token, whose bearer is the default tenant and may do everything.
type Token struct {
	digest     [sha256.Size]byte
	credential string
	grants     []Grant
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
	digest := sha256.Sum256([]byte(token))
	return &Token{digest: digest, credential: CredentialName(digest), grants: AllGrants()}, nil
}

// Verify implements Verifier. Its time does not depend on the number of correct characters: it compares digests in
// constant time.
func (t *Token) Verify(_ context.Context, credential string) (Principal, error) {
	digest := sha256.Sum256([]byte(credential))
	if subtle.ConstantTimeCompare(digest[:], t.digest[:]) != 1 {
		return Principal{}, &GuessError{Reason: "the token is not the one of this server"}
	}
	return t.principal(), nil
}

// Current implements Verifier: a proof that was issued for another token is invalid.
func (t *Token) Current(_ context.Context, credential string) (Principal, error) {
	if credential != t.credential {
		return Principal{}, errNoCredential
	}
	return t.principal(), nil
}

// Named implements Verifier.
func (t *Token) Named(_ context.Context, tenant reprise.Tenant, name string) (Principal, error) {
	if tenant != reprise.DefaultTenant || name != tokenName {
		return Principal{}, errNoCredential
	}
	return t.principal(), nil
}

// tokenName is the name of the principal that the token stands for.
const tokenName = "token"

func (t *Token) principal() Principal {
	return Principal{
		Name: tokenName, Tenant: reprise.DefaultTenant, Grants: t.grants, Credential: t.credential,
	}
}

// CredentialName tells a credential among all others and says nothing about it: the
// digest of its digest, cut short.
func CredentialName(digest [sha256.Size]byte) string {
	again := sha256.Sum256(digest[:])
	return hex.EncodeToString(again[:8])
}

// Verifiers asks one Verifier after the other.
type Verifiers []Verifier

// Verify implements Verifier.
func (v Verifiers) Verify(ctx context.Context, credential string) (Principal, error) {
	return v.first(func(one Verifier) (Principal, error) { return one.Verify(ctx, credential) })
}

// Current implements Verifier.
func (v Verifiers) Current(ctx context.Context, credential string) (Principal, error) {
	return v.first(func(one Verifier) (Principal, error) { return one.Current(ctx, credential) })
}

// Named implements Verifier.
func (v Verifiers) Named(ctx context.Context, tenant reprise.Tenant, name string) (Principal, error) {
	return v.first(func(one Verifier) (Principal, error) { return one.Named(ctx, tenant, name) })
}

// first returns the first answer without an error, or else the last error.
func (v Verifiers) first(ask func(Verifier) (Principal, error)) (p Principal, err error) {
	err = errNoCredential
	for _, one := range v {
		if p, err = ask(one); err == nil {
			return p, nil
		}
	}
	return Principal{}, err
}

// LoadToken reads the token in the file at path. If there is no such file, it
// makes one with a random token of 130 bits that its owner alone can read. The token
// is as NewToken takes it; the error wraps reprise.ErrInvalid if it is not.
func LoadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.Create(path, []byte(rand.Text()+"\n")); err != nil {
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
