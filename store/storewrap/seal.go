package storewrap

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/marker"
	"reprise/internal/recent"
)

// Encrypted data is stored as
//
//	+--------+------------+--------+---------+------------+---------+
//	| code 5 | length of  | key id | nonce   | ciphertext | GCM tag |
//	| 1 byte | key id: 1  |        | 12      |            | 16      |
//	+--------+------------+--------+---------+------------+---------+
//
// with AES-256-GCM. The key is derived with HKDF-SHA256 from the master key of that id, from the tenant, name and epoch
// of the stream, and from the seq divided by 2^24. The associated data is everything before the nonce, followed by the
// purpose, tenant, name, epoch, seq and count of the data, each with its length or in eight bytes.
//
// Nonces are random. A GCM key must not be used twice with the same nonce. After a failed append the same seq can be
// encrypted again with other events, so the nonce cannot be the seq. Of n random nonces of 96 bits, two are equal with
// a probability below n*n/2^97. A derived key encrypts at most 2^24 batches, not counting retries, so the probability
// for a full one is 2^-49. NIST SP 800-38D allows 2^-32, which would be 2^32 batches. Each stream and epoch has its own
// keys, so their number does not matter.

// purpose distinguishes what is encrypted.
type purpose string

const (
	sealsBatch  purpose = "batch"
	sealsEnd    purpose = "end"
	sealsConfig purpose = "config"
)

// keyLabel is the HKDF label of keys; it names the version of this format.
const keyLabel = "reprise storewrap encrypt 1"

// keyRange is the number of seqs that share a derived key, as a power of two.
const keyRange = 24

// errSealed means that something cannot be decrypted.
var errSealed = errors.New("cannot be decrypted")

// sealPlace is the place to which encrypted data is bound.
type sealPlace struct {
	purpose purpose
	key     reprise.StreamKey
	epoch   reprise.Epoch
	seq     uint64
	count   uint64
	// extra is further data that must be unchanged.
	extra string
}

// sealer encrypts and decrypts. It is safe for concurrent use.
type sealer struct {
	keys  *reprise.Keyset
	first string // the id of the key that encrypts
	// derived keys take some microseconds and about 1 KiB each.
	known recent.Map[derivation, cipher.AEAD]
}

// derivation is the input of a key derivation.
type derivation struct {
	id    string
	key   reprise.StreamKey
	epoch reprise.Epoch
	part  uint64
}

func (s *sealer) init(keys *reprise.Keyset) {
	s.keys, s.first = keys, keys.IDs()[0]
}

// seal encrypts plain into new memory.
func (s *sealer) seal(at sealPlace, plain []byte) ([]byte, error) {
	aead, err := s.derived(s.first, at)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 2+len(s.first)+len(plain)+aead.Overhead())
	out = append(out, codeEncrypted, byte(len(s.first)))
	out = append(out, s.first...)
	return aead.Seal(out, nil, plain, at.associated(out)), nil
}

// open is the inverse of seal.
func (s *sealer) open(at sealPlace, sealed []byte) ([]byte, error) {
	if len(sealed) < 2 || sealed[0] != codeEncrypted {
		return nil, fmt.Errorf("%w: it is not encrypted", errSealed)
	}
	head := 2 + int(sealed[1])
	if head > len(sealed) {
		return nil, fmt.Errorf("%w: its head is damaged", errSealed)
	}
	id := string(sealed[2:head])
	aead, err := s.derived(id, at)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, sealed[head:], at.associated(sealed[:head]))
	if err != nil {
		return nil, fmt.Errorf("%w with the key %q: it was changed, or belongs to another place", errSealed, id)
	}
	return plain, nil
}

// associated returns the associated data for a place, preceded by head.
func (at *sealPlace) associated(head []byte) []byte {
	b := make([]byte, 0, 256)
	for _, part := range []string{
		string(head), string(at.purpose), string(at.key.Tenant), at.key.Name,
		string(at.epoch), at.extra,
	} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	b = binary.BigEndian.AppendUint64(b, at.seq)
	return binary.BigEndian.AppendUint64(b, at.count)
}

// derived returns the cipher for a place.
func (s *sealer) derived(id string, at sealPlace) (cipher.AEAD, error) {
	d := derivation{id, at.key, at.epoch, at.seq >> keyRange}
	if aead, ok := s.known.Load(d); ok {
		return aead, nil
	}
	info := []byte(keyLabel)
	for _, part := range []string{d.id, string(d.key.Tenant), d.key.Name, string(d.epoch)} {
		info = binary.BigEndian.AppendUint32(info, uint32(len(part)))
		info = append(info, part...)
	}
	info = binary.BigEndian.AppendUint64(info, d.part)
	secret, ok := s.keys.Secret(id, string(info))
	if !ok {
		return nil, fmt.Errorf("%w: the key %q is missing", errSealed, id)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	s.known.Store(d, aead)
	return aead, nil
}

// checkLabel is the HKDF label of the check values of keys.
const checkLabel = "reprise storewrap key check 1"

// marks returns the keys for the marker of a store. A check value is 16 hexadecimal digits of HMAC-SHA256 over the id,
// under a key that is derived from the secret with HKDF-SHA256.
func marks(keys *reprise.Keyset) (marks []marker.Key) {
	for _, id := range keys.IDs() {
		derived, _ := keys.Secret(id, checkLabel)
		mac := hmac.New(sha256.New, derived)
		mac.Write([]byte(id))
		marks = append(marks, marker.Key{ID: id, Check: hex.EncodeToString(mac.Sum(nil)[:8])})
	}
	return marks
}
