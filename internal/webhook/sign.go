package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Secret is a signing secret: "whsec_" and the key in base64.
type Secret struct {
	Text    string    `json:"text,omitempty"`
	Created time.Time `json:"created"`
	// Expires is the time after which it no longer signs, nil for the newest one.
	Expires *time.Time `json:"expires,omitempty"`
}

// secretPrefix begins the text of a secret (Standard Webhooks, "Signature scheme").
const secretPrefix = "whsec_"

// The lengths of a key in bytes, by the same section.
const (
	minKey, maxKey = 24, 64
	newKey         = 32
)

func newSecret(now time.Time) Secret {
	key := make([]byte, newKey)
	_, _ = rand.Read(key) // it never fails
	return Secret{Text: secretPrefix + base64.StdEncoding.EncodeToString(key), Created: now}
}

// key returns the signing key, nil if the text of the secret is invalid.
func (s *Secret) key() []byte {
	text, ok := strings.CutPrefix(s.Text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < minKey || len(key) > maxKey {
		return nil
	}
	return key
}

// sign sets the headers of Standard Webhooks 1.0 on a request with a body: a signature for each secret that has not
// expired, with a space between.
func sign(header http.Header, secrets []Secret, id string, now time.Time, body []byte) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	var signatures []string
	for i := range secrets {
		if s := &secrets[i]; s.Expires == nil || now.Before(*s.Expires) {
			mac := hmac.New(sha256.New, s.key())
			mac.Write([]byte(id + "." + stamp + "."))
			mac.Write(body)
			signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
	}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", stamp)
	header.Set("webhook-signature", strings.Join(signatures, " "))
}

// messageID returns the id of a message, which is the same in each try. It proves nothing: deriving it needs no secret.
func messageID(hook string, parts ...string) string {
	sum := sha256.Sum256([]byte("reprise webhook 1\x00" + hook + "\x00" + strings.Join(parts, "\x00")))
	return "msg_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}
