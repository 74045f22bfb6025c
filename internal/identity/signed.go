package identity

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"reprise"
)

// The labels separate the purposes of signatures.
const (
	cookieLabel   = "reprise login 3"
	ticketLabel   = "reprise ticket 2"
	flowLabel     = "reprise flow 1"
	nonceLabel    = "reprise nonce 1"
	verifierLabel = "reprise verifier 1"
)

// maxSignedBytes limits the text of a cookie or ticket before it is processed.
const maxSignedBytes = 4096

// claims are what a cookie or a ticket says: the credential that it was given for, and for a ticket the one stream that
// it reads, of the tenant of the credential. The text is "<base64url of the
// JSON>.<code>", with the code of reprise.Keyset.Sign; the JSON has no dot, so
// the first dot is where the code begins.
type claims struct {
	Credential string `json:"credential,omitempty"`
	Stream     string `json:"stream,omitempty"`
	ID         string `json:"id,omitempty"` // of a login, or the state of a flow
	Provider   string `json:"provider,omitempty"`
	Secret     string `json:"secret,omitempty"` // digest of the second secret of a login
	Expires    int64  `json:"expires"`          // Unix seconds
	// Begun, in Unix seconds, is when the first ticket was issued of those that were renewed since, and TTL, in
	// seconds, how long each of them lives. Logins have neither.
	Begun int64 `json:"begun,omitempty"`
	TTL   int64 `json:"ttl,omitempty"`
}

// seal signs claims for a purpose. The error wraps reprise.ErrInvalid for more claims than unseal reads.
func seal(keys *reprise.Keyset, label string, c claims) (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	payload := base64.RawURLEncoding.EncodeToString(text)
	sealed := payload + "." + keys.Sign(label, payload)
	if len(sealed) > maxSignedBytes {
		return "", fmt.Errorf("%w: the claims of the credential are too long for a cookie or ticket",
			reprise.ErrInvalid)
	}
	return sealed, nil
}

// unseal is the inverse of seal. The error wraps ErrUnauthenticated.
func unseal(keys *reprise.Keyset, label, text string, now time.Time) (claims, error) {
	var c claims
	payload, code, _ := strings.Cut(text, ".")
	if len(text) > maxSignedBytes || !keys.Verify(code, label, payload) {
		return c, &GuessError{Reason: "not signed by this server"}
	}
	decoded, err := base64.RawURLEncoding.DecodeString(payload)
	if err == nil {
		err = json.Unmarshal(decoded, &c)
	}
	if err != nil {
		return c, fmt.Errorf("%w: signed by another version of this server", ErrUnauthenticated)
	}
	if now.Unix() >= c.Expires {
		return c, fmt.Errorf("%w: expired", ErrUnauthenticated)
	}
	return c, nil
}
