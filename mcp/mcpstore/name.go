package mcpstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"reprise"
)

// ref names a stream of a session by the names of the SDK.
type ref struct{ session, stream string }

// namespacePrefix begins the namespace of each session.
const namespacePrefix = "mcpstore."

// maxPart is the maximum length up to which the name of a session or stream is used unchanged.
const maxPart = 100

// key is the name of r in the Log.
func (k *keeper) key(r ref) reprise.StreamKey {
	return reprise.StreamKey{Tenant: k.opts.Tenant, Name: namespace(r.session) + encode(r.stream)}
}

// namespace holds the streams of a session, and no other's.
func namespace(session string) string { return namespacePrefix + encode(session) + ":" }

// encode makes a part of a stream's name of any string, another one for each: letters, digits and '-' stand for
// themselves, any other byte is "_" and two hexadecimal digits, "" is "_", and what gets too long is "_h" and its
// SHA-256.
func encode(s string) string {
	if s == "" {
		return "_"
	}
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('_')
		b.WriteString(hex.EncodeToString([]byte{c}))
	}
	if b.Len() > maxPart {
		sum := sha256.Sum256([]byte(s))
		return "_h" + hex.EncodeToString(sum[:])
	}
	return b.String()
}
