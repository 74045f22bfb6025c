// Package serverproof lets a server of this machine prove to a client that it knows the token before the client sends
// the token. A program that listens at the address while the server is down cannot do so.
//
// The client sends a random challenge over the connection that it is going to use. The server answers with a code over
// the challenge and the address at which the connection arrived. The address prevents an intermediary from passing on
// the answer of the real server, which listens elsewhere.
package serverproof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"reprise"
)

// Path is where a challenge is answered, with the query parameter Param. The answer is JSON with the member Member.
const (
	Path   = "/v1/proof"
	Param  = "challenge"
	Member = "proof"
)

// Bounds of the length of a challenge, inclusive.
const (
	minChallenge = 16
	maxChallenge = 128
)

// MinToken is the length in bytes from which on a token is proven. Everybody who asks gets a proof, and can compare it
// with the proofs of guessed tokens, so a token that a person has made up must be longer than what is guessed. Tokens
// that the server makes have 26.
const MinToken = 24

// label keeps the code from being good for anything else.
const label = "reprise server proof 1"

// Answer returns the code for a challenge over a connection to an address, such as "127.0.0.1:7070". The error wraps
// reprise.ErrInvalid for a challenge that is too short or too long.
func Answer(token, challenge, address string) (string, error) {
	if len(challenge) < minChallenge || len(challenge) > maxChallenge {
		return "", fmt.Errorf("%w: a challenge of %d characters, %d to %d are taken",
			reprise.ErrInvalid, len(challenge), minChallenge, maxChallenge)
	}
	key := sha256.Sum256([]byte(label + "\n" + token))
	mac := hmac.New(sha256.New, key[:])
	fmt.Fprintf(mac, "%s\n%q\n%q", label, challenge, address)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// Good reports whether proof is the answer to a challenge.
func Good(proof, token, challenge, address string) bool {
	want, err := Answer(token, challenge, address)
	return err == nil && hmac.Equal([]byte(proof), []byte(want))
}
