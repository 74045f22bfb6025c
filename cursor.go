package reprise

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
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
	"slices"
	"strconv"
	"strings"

	"reprise/internal/durable"
)

// Epoch is the random id of one history of a stream: 16 digits of Crockford's
// base32 (80 bits), for example "7ZK3M9Q2VTX4WB8A". A stream gets another epoch when its name
// is used again or when its history was lost.
type Epoch string

const (
	epochLen = 16
	tagLen   = 13 // 8 bytes in base32
	// crockford is the alphabet of https://www.crockford.com/base32.html.
	crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	// maxCursor is the length of the longest cursor.
	maxCursor = 20 + 1 + epochLen + 1 + tagLen
)

// NewEpoch returns a random epoch.
func NewEpoch() Epoch {
	var b [10]byte
	rand.Read(b[:])
	return Epoch(base32(b[:]))
}

// Cursor is the position just after event Seq of one epoch of a stream; Seq 0
// is the position before the first event. Its text is opaque to users, at most 51
// bytes of printable ASCII: "<seq>.<epoch>.<tag>". The tag binds it to tenant,
// stream and epoch.
type Cursor struct {
	Seq   uint64
	Epoch Epoch
	// Tag authenticates the cursor; see Keyset.
	Tag string
}

// String is the inverse of ParseCursor. The zero Cursor is "".
func (c Cursor) String() string {
	if c.IsZero() {
		return ""
	}
	return string(c.Append(make([]byte, 0, maxCursor)))
}

// Append appends the text of c to dst.
func (c Cursor) Append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, c.Seq, 10)
	dst = append(dst, '.')
	dst = append(dst, c.Epoch...)
	dst = append(dst, '.')
	return append(dst, c.Tag...)
}

// IsZero reports whether c is the zero Cursor, which is not a position.
func (c Cursor) IsZero() bool { return c.Epoch == "" }

// ParseCursor parses the text of a cursor. It checks only the form; a Log checks
// the tag. The error is ErrCursorMalformed.
func ParseCursor(s string) (Cursor, error) {
	dot := len(s) - tagLen - 1 - epochLen - 1
	if dot < 1 || dot > 20 || s[dot] != '.' || s[dot+1+epochLen] != '.' {
		return Cursor{}, ErrCursorMalformed
	}
	seq, ok := parseSeq(s[:dot])
	epoch, tag := s[dot+1:dot+1+epochLen], s[len(s)-tagLen:]
	if !ok || !isBase32(epoch) || !isBase32(tag) {
		return Cursor{}, ErrCursorMalformed
	}
	return Cursor{Seq: seq, Epoch: Epoch(epoch), Tag: tag}, nil
}

// parseSeq accepts the one decimal form of a number: no sign, no leading zero.
func parseSeq(s string) (uint64, bool) {
	if len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// base32Digit is true for the digits of crockford.
var base32Digit = func() (t [256]bool) {
	for i := range len(crockford) {
		t[crockford[i]] = true
	}
	return t
}()

func isBase32(s string) bool {
	for i := range len(s) {
		if !base32Digit[s[i]] {
			return false
		}
	}
	return true
}

// base32 encodes b from the highest bit down, the last digit padded with zeros.
func base32(b []byte) string {
	out := make([]byte, 0, (len(b)*8+4)/5)
	var acc, bits uint
	for _, c := range b {
		acc = acc<<8 | uint(c)
		for bits += 8; bits >= 5; bits -= 5 {
			out = append(out, crockford[acc>>(bits-5)&31])
		}
	}
	if bits > 0 {
		out = append(out, crockford[acc<<(5-bits)&31])
	}
	return string(out)
}

// Position says where a Reader begins. The zero Position is the earliest kept event.
type Position struct {
	tail   bool
	cursor Cursor
}

// Earliest is the position just before the first kept event.
func Earliest() Position { return Position{} }

// Tail is the position just after the last event. A reader from there gets new events only.
func Tail() Position { return Position{tail: true} }

// After is the position of a cursor.
func After(c Cursor) Position { return Position{cursor: c} }

// ParsePosition parses a position that a client asks for: "", "0" and "earliest", "tail",
// or the text of a cursor. The error is ErrCursorMalformed.
func ParsePosition(s string) (Position, error) {
	switch s {
	case "", "0", "earliest":
		return Earliest(), nil
	case "tail":
		return Tail(), nil
	}
	c, err := ParseCursor(s)
	return After(c), err
}

// matches reports in constant time whether tag is one of tags.
func matches(tags []string, tag string) bool {
	for _, t := range tags {
		if subtle.ConstantTimeCompare([]byte(t), []byte(tag)) == 1 {
			return true
		}
	}
	return false
}

// Keyset holds secrets: those that authenticate cursors and other values that the server issues, or those that encrypt
// stored data. The first key signs or encrypts, and all of them verify or decrypt. To replace a key, put a new one in
// front, and remove the old one when nothing that it signed or encrypted is in use any more. Replicas that serve the
// same streams need the same keys. A Keyset is safe for concurrent use.
type Keyset struct {
	ring []key
}

type key struct {
	id     string
	secret []byte
}

const (
	keySecretBytes = 32
	maxKeyID       = 32
)

// NewKeyset returns a set with one random key. Its signatures can be verified only
// within this process.
func NewKeyset() *Keyset {
	secret := make([]byte, keySecretBytes)
	rand.Read(secret)
	return &Keyset{ring: []key{{id: rand.Text()[:8], secret: secret}}}
}

// ParseKeyset parses one key per line, the signing key first, each
// "<id> <base64 of 32 bytes>" with an id of 1 to 32 letters, digits, '.', '_' and
// '-'. Empty lines and lines that begin with '#' are ignored. The error wraps ErrInvalid.
func ParseKeyset(text []byte) (*Keyset, error) {
	k := &Keyset{}
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

// LoadKeyset reads the keys from the file at path. If the file does not exist, LoadKeyset creates
// it with one random key, readable by its owner only.
func LoadKeyset(path string) (*Keyset, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.Create(path, NewKeyset().text()); err != nil {
			return nil, err
		}
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	k, err := ParseKeyset(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

func (k *Keyset) text() []byte {
	var b bytes.Buffer
	for _, key := range k.ring {
		fmt.Fprintf(&b, "%s %s\n", key.id, base64.StdEncoding.EncodeToString(key.secret))
	}
	return b.Bytes()
}

// String returns the ids of the keys, and no secret.
func (k *Keyset) String() string { return fmt.Sprintf("keys %q", k.IDs()) }

// GoString returns what %#v prints, the same as String.
func (k *Keyset) GoString() string { return k.String() }

// IDs returns the ids of the keys, the signing key first.
func (k *Keyset) IDs() []string {
	ids := make([]string, len(k.ring))
	for i := range k.ring {
		ids[i] = k.ring[i].id
	}
	return ids
}

// Secret returns 32 bytes that are derived from the key with an id for a purpose (RFC 5869, SHA-256). It reports
// whether there is such a key.
func (k *Keyset) Secret(id, purpose string) (secret []byte, ok bool) {
	i := slices.IndexFunc(k.ring, func(key key) bool { return key.id == id })
	if i < 0 {
		return nil, false
	}
	return k.ring[i].derive(purpose), true
}

func (k key) derive(purpose string) []byte {
	secret, err := hkdf.Key(sha256.New, k.secret, nil, purpose, keySecretBytes)
	if err != nil {
		panic(err) // impossible for this length
	}
	return secret
}

// Derive returns a set for another purpose. Its secrets are derived from the secrets of k (RFC 5869) and reveal nothing
// about them. The two sets do not verify each other's signatures.
func (k *Keyset) Derive(purpose string) *Keyset {
	derived := &Keyset{ring: make([]key, len(k.ring))}
	for i, from := range k.ring {
		derived.ring[i] = key{id: from.id, secret: from.derive(purpose)}
	}
	return derived
}

// Sign returns an authentication code over label and parts, made with the signing key:
// "<key id>.<52 digits of base32>". The label names the purpose, so a code for one purpose
// is not valid for another; it should contain a version.
func (k *Keyset) Sign(label string, parts ...string) string {
	signer := k.ring[0]
	return signer.id + "." + base32(signer.mac(label, parts))
}

// Verify reports whether mac is an authentication code over label and parts that any
// key of the set has made.
func (k *Keyset) Verify(mac, label string, parts ...string) bool {
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

// cursorTags returns the tag of the cursors of an epoch under each key of the set.
func (k *Keyset) cursorTags(stream StreamKey, epoch Epoch) []string {
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

// listPurpose separates the keys of list cursors from others.
const listPurpose = "reprise list 1"

// listPad is the multiple to which the positions of lists are padded: the digits of a uint64.
const listPad = 20

// sealList encrypts a position in a list of a tenant, ListPage.Next of a Store. Stores number the streams of all
// tenants together, and two positions would tell a tenant how many streams others have made in between. The same
// position has the same text. k is derived with listPurpose.
func (k *Keyset) sealList(tenant Tenant, next string) string {
	if next == "" {
		return ""
	}
	signer := k.ring[0]
	aead := signer.listCipher()
	nonce := signer.mac("nonce", []string{string(tenant), next})[:aead.NonceSize()]
	padded := make([]byte, (len(next)+listPad-1)/listPad*listPad)
	copy(padded, next)
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, padded, []byte(tenant)))
}

// openList is the inverse of sealList, for every key of the set.
func (k *Keyset) openList(tenant Tenant, after string) (string, error) {
	if after == "" {
		return "", nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(after)
	for i := 0; err == nil && i < len(k.ring); i++ {
		aead := k.ring[i].listCipher()
		if size := aead.NonceSize(); len(sealed) > size {
			if padded, err := aead.Open(nil, sealed[:size], sealed[size:], []byte(tenant)); err == nil {
				return strings.TrimRight(string(padded), "\x00"), nil
			}
		}
	}
	return "", fmt.Errorf("%w: %q is not a list cursor", ErrInvalid, after)
}

// listCipher returns the cipher of a key that is derived with listPurpose.
func (k key) listCipher() cipher.AEAD {
	block, err := aes.NewCipher(k.mac("key", nil))
	if err != nil {
		panic(err) // impossible for this length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // impossible for AES
	}
	return aead
}
