package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/quota"
)

// Key describes an API key without its secret.
type Key struct {
	// ID names the key, for example "k7x2m9q4wd". It is the public part of the key's text.
	ID string `json:"id"`
	// Name is for people, and part of the name of the principal.
	Name   string           `json:"name"`
	Tenant reprise.Tenant   `json:"tenant"`
	Scopes []identity.Grant `json:"scopes"`
	// Limits are the quotas of the key; for all others the server's quotas apply.
	Limits quota.Limits `json:"limits,omitempty"`
	// Created is when the key was made, Rotated when it was last given another secret.
	Created time.Time  `json:"created"`
	Rotated *time.Time `json:"rotated"`
	// Expires is when it ends by itself, Revoked when it was ended.
	Expires *time.Time `json:"expires"`
	Revoked *time.Time `json:"revoked"`
}

// Request describes a key to make.
type Request struct {
	// Name is 1 to 64 letters, digits, '.', '_' and '-'.
	Name   string
	Tenant reprise.Tenant
	// Scopes are 1 to 64 grants.
	Scopes []identity.Grant
	// Limits are the quotas of the key. Default: the server's quotas.
	Limits quota.Limits
	// Expires is in the future, or zero for a key that does not end by itself.
	Expires time.Time
}

const (
	maxName   = 64
	maxScopes = 64
	// reservedTenants begin the names of tenants that no key is for.
	reservedTenants = "reprise."
)

// errField is an error for a member of a Request.
type errField struct{ field, reason string }

func (e *errField) Error() string { return e.field + ": " + e.reason }
func (e *errField) Unwrap() error { return reprise.ErrInvalid }

// Field returns which member of a Request an error is about, "" for others.
func Field(err error) (field, reason string) {
	if e, ok := errors.AsType[*errField](err); ok {
		return e.field, e.reason
	}
	return "", ""
}

func (q *Request) validate(now time.Time) error {
	switch {
	case q.Name == "" || len(q.Name) > maxName || strings.ContainsFunc(q.Name, notInNames):
		return &errField{"name", fmt.Sprintf("it is 1 to %d letters, digits, '.', '_' and '-'", maxName)}
	case strings.HasPrefix(string(q.Tenant), reservedTenants):
		return &errField{"tenant", "tenants that begin with " + reservedTenants + " are the server's own"}
	case len(q.Scopes) == 0 || len(q.Scopes) > maxScopes:
		return &errField{"scopes", fmt.Sprintf("1 to %d are needed", maxScopes)}
	case !q.Expires.IsZero() && !q.Expires.After(now):
		return &errField{"expires", "it is in the past"}
	}
	if err := q.Limits.Validate(); err != nil {
		return &errField{"limits", err.Error()}
	}
	if err := (reprise.StreamKey{Tenant: q.Tenant, Name: "x"}).Validate(); err != nil {
		return &errField{"tenant", "it is 1 to 64 letters, digits, '.', '_' and '-'"}
	}
	return nil
}

func notInNames(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r))
}

// record is the Journal's record of a change: the complete key after the change.
type record struct {
	Key
	// Digest is the digest of the key's text, in hex.
	Digest digest `json:"digest"`
}

// digest is SHA-256 of the text of a key. The text has 160 random bits: there is nothing to slow down.
type digest [sha256.Size]byte

// MarshalText implements encoding.TextMarshaler.
func (d digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("%w: a digest of %d digits", reprise.ErrInvalid, len(text))
	}
	_, err := hex.Decode(d[:], text)
	return err
}

// parseRecord parses a record of a Journal.
func parseRecord(text []byte) (*record, error) {
	var rec record
	if err := json.Unmarshal(text, &rec); err != nil {
		return nil, err
	}
	if rec.ID == "" {
		return nil, fmt.Errorf("%w: a record without an id", reprise.ErrInvalid)
	}
	return &rec, nil
}

const (
	// textPrefix begins the text of each key, so that scanners for leaked secrets find it.
	textPrefix  = "rp_"
	idBytes     = 6
	secretBytes = 20
)

var encoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

func newID() string { return random(idBytes) }

// newText is the text of a key with an id, and a new secret.
func newText(id string) string { return textPrefix + id + "_" + random(secretBytes) }

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return encoding.EncodeToString(b)
}

// idOf is the id in the text of a key, "" for another text.
func idOf(text string) string {
	rest, ok := strings.CutPrefix(text, textPrefix)
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, "_")
	return id
}
