package reprise

import (
	"bufio"
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Keys is a ring of secrets that authenticate cursors and other values that
// the server issues. The first key signs and all of them verify. To replace a key, put a new one in
// front, and remove the old one when no value that it signed is in use any more. Replicas that serve the
// same streams need the same keys. A Keys is safe for concurrent use.
type Keys struct {
	ring []key
}

type key struct {
	id     string
	secret []byte
}

const (
	keySecretBytes = 32
	maxKeyID       = 32
	keysFileMode   = 0o600
)

// NewKeys returns a ring with one random key. Its signatures can be verified only
// within this process.
func NewKeys() *Keys {
	secret := make([]byte, keySecretBytes)
	rand.Read(secret)
	return &Keys{ring: []key{{id: rand.Text()[:8], secret: secret}}}
}

// ParseKeys parses a ring: one key per line, the signing key first, each
// "<id> <base64 of 32 bytes>" with an id of 1 to 32 letters, digits, '.', '_' and
// '-'. Empty lines and lines that begin with '#' are ignored. The error wraps ErrInvalid.
func ParseKeys(text []byte) (*Keys, error) {
	k := &Keys{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		id, encoded, _ := strings.Cut(line, " ")
		secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil || len(secret) != keySecretBytes || !isKeyID(id) {
			return nil, fmt.Errorf("%w: line %d of the keys is not \"<id> <base64 of %d bytes>\"", ErrInvalid, n,
				keySecretBytes)
		}
		if slices.ContainsFunc(k.ring, func(other key) bool { return other.id == id }) {
			return nil, fmt.Errorf("%w: line %d of the keys repeats the id %q", ErrInvalid, n, id)
		}
		k.ring = append(k.ring, key{id: id, secret: secret})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: keys: %w", ErrInvalid, err)
	}
	if len(k.ring) == 0 {
		return nil, fmt.Errorf("%w: no key", ErrInvalid)
	}
	return k, nil
}

func isKeyID(id string) bool {
	if id == "" || len(id) > maxKeyID {
		return false
	}
	for i := range len(id) {
		if !isNameByte(id[i]) {
			return false
		}
	}
	return true
}

// LoadKeys reads the ring from the file at path. If the file does not exist, LoadKeys creates
// it with one random key, readable by its owner only.
func LoadKeys(path string) (*Keys, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createKeys(path); err != nil {
			return nil, err
		}
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	k, err := ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// createKeys writes a new ring to path, unless another process was faster. The
// file appears complete or not at all.
func createKeys(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(NewKeys().text())
	err = errors.Join(err, f.Chmod(keysFileMode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (k *Keys) text() []byte {
	var b bytes.Buffer
	for _, key := range k.ring {
		fmt.Fprintf(&b, "%s %s\n", key.id, base64.StdEncoding.EncodeToString(key.secret))
	}
	return b.Bytes()
}

// Derive returns a ring for another purpose. Its secrets are derived from those of k (RFC 5869) and reveal nothing
// about them. The two rings do not verify each other's signatures.
func (k *Keys) Derive(purpose string) *Keys {
	derived := &Keys{ring: make([]key, len(k.ring))}
	for i, from := range k.ring {
		secret, err := hkdf.Key(sha256.New, from.secret, nil, purpose, keySecretBytes)
		if err != nil {
			panic(err) // impossible for this length
		}
		derived.ring[i] = key{id: from.id, secret: secret}
	}
	return derived
}

// Sign returns an authentication code over label and parts, made with the signing key:
// "<key id>.<52 digits of base32>". The label names the purpose, so a code for one purpose
// is not valid for another; it should contain a version.
func (k *Keys) Sign(label string, parts ...string) string {
	signer := k.ring[0]
	return signer.id + "." + base32(signer.mac(label, parts))
}

// Verify reports whether mac is an authentication code over label and parts that any
// key of the ring has made.
func (k *Keys) Verify(mac, label string, parts ...string) bool {
	dot := strings.LastIndexByte(mac, '.')
	if dot < 0 {
		return false
	}
	for _, key := range k.ring {
		if key.id == mac[:dot] {
			want := base32(key.mac(label, parts))
			return subtle.ConstantTimeCompare([]byte(want), []byte(mac[dot+1:])) == 1
		}
	}
	return false
}

// cursorLabel is the label of cursor tags.
const cursorLabel = "reprise cursor 1"

// cursorTags returns the tag of the cursors of an epoch under each key of the ring.
func (k *Keys) cursorTags(stream StreamKey, epoch Epoch) []string {
	tags := make([]string, len(k.ring))
	for i, key := range k.ring {
		mac := key.mac(cursorLabel, []string{string(stream.Tenant), stream.Name, string(epoch)})
		tags[i] = base32(mac[:8])
	}
	return tags
}

// mac is HMAC-SHA256 over label, key id and parts. Each is preceded by its length, so
// two different lists never give the same input.
func (k key) mac(label string, parts []string) []byte {
	h := hmac.New(sha256.New, k.secret)
	write := func(s string) {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	write(label)
	write(k.id)
	for _, p := range parts {
		write(p)
	}
	return h.Sum(nil)
}
