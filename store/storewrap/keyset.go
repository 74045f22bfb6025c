package storewrap

import (
	"bufio"
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"reprise"
	"reprise/internal/marker"
)

// Key is a master key of Encrypt. Printing a Key shows only its id.
type Key struct {
	// ID identifies the key in the data that it encrypts, for example "2026-11": 1 to 32 letters, digits, '.', '_' and
	// '-'. It is stored in plain text.
	ID string
	// Secret is 32 random bytes.
	Secret []byte `json:"-"`
}

const (
	secretBytes = 32
	maxKeyID    = 32
)

func (k Key) String() string { return "key " + k.ID }

// GoString returns the text that %#v prints.
func (k Key) GoString() string { return "storewrap.Key{" + k.ID + "}" }

// Keyset holds the master keys of Encrypt: the first one encrypts, all of them decrypt. To replace a key, put a new one
// in front. The old key can be removed when no kept data is encrypted with it. A Keyset is safe for concurrent use.
type Keyset struct {
	ring []Key
}

func (s *Keyset) String() string { return fmt.Sprint(s.ring) }

// GoString returns the text that %#v prints.
func (s *Keyset) GoString() string { return s.String() }

// NewKeyset returns a set of copies of keys. The error wraps reprise.ErrInvalid if there is no key, an id or a secret
// is invalid, or two keys have the same id.
func NewKeyset(keys ...Key) (*Keyset, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: no key", reprise.ErrInvalid)
	}
	s := &Keyset{}
	for _, k := range keys {
		switch _, err := s.find(k.ID); {
		case err == nil:
			return nil, fmt.Errorf("%w: two keys with the id %q", reprise.ErrInvalid, k.ID)
		case !isKeyID(k.ID):
			return nil, fmt.Errorf("%w: %q is not a key id: 1 to %d letters, digits, '.', '_' and '-'",
				reprise.ErrInvalid, k.ID, maxKeyID)
		case len(k.Secret) != secretBytes:
			return nil, fmt.Errorf("%w: key %q has %d bytes, it must have %d", reprise.ErrInvalid, k.ID, len(k.Secret),
				secretBytes)
		}
		s.ring = append(s.ring, Key{ID: k.ID, Secret: bytes.Clone(k.Secret)})
	}
	return s, nil
}

func isKeyID(id string) bool {
	// A tenant allows the same characters and is at most longer.
	return len(id) <= maxKeyID && reprise.StreamKey{Tenant: reprise.Tenant(id), Name: "x"}.Validate() == nil
}

func (s *Keyset) find(id string) (Key, error) {
	i := slices.IndexFunc(s.ring, func(k Key) bool { return k.ID == id })
	if i < 0 {
		return Key{}, fmt.Errorf("%w: the key %q is missing", errSealed, id)
	}
	return s.ring[i], nil
}

// checkLabel is the HKDF label of the check values of keys.
const checkLabel = "reprise storewrap key check 1"

// marks returns the keys for the marker of a store. A check value is 16 hexadecimal digits of HMAC-SHA256 over the id,
// under a key that is derived from the secret with HKDF-SHA256.
func (s *Keyset) marks() []marker.Key {
	marks := make([]marker.Key, len(s.ring))
	for i, key := range s.ring {
		derived, err := hkdf.Key(sha256.New, key.Secret, nil, checkLabel, sha256.Size)
		if err != nil { // only for an impossible length
			panic(err)
		}
		mac := hmac.New(sha256.New, derived)
		mac.Write([]byte(key.ID))
		marks[i] = marker.Key{ID: key.ID, Check: hex.EncodeToString(mac.Sum(nil)[:8])}
	}
	return marks
}

// ParseKeyset parses one key per line, the encrypting one first, each as "<id> <base64 of 32 bytes>". It ignores empty
// lines and lines that begin with '#'. The error wraps reprise.ErrInvalid and contains no part of a secret.
func ParseKeyset(text []byte) (*Keyset, error) {
	var keys []Key
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		id, encoded, _ := strings.Cut(line, " ")
		secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil || len(secret) != secretBytes || !isKeyID(id) {
			return nil, fmt.Errorf("%w: line %d of the keys is not \"<id> <base64 of %d bytes>\"", reprise.ErrInvalid,
				n, secretBytes)
		}
		keys = append(keys, Key{ID: id, Secret: secret})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: keys: %v", reprise.ErrInvalid, err)
	}
	return NewKeyset(keys...)
}

// LoadKeyset parses the file at path like ParseKeyset. The error also wraps reprise.ErrInvalid if anyone but the owner
// may read or write the file. A missing file is an error. LoadKeyset does not create it, because data encrypted with
// lost keys cannot be recovered; see CreateKeyFile.
func LoadKeyset(path string) (*Keyset, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %#o; a file of keys must be its owner's alone: chmod 600",
			reprise.ErrInvalid, path, mode)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(f); err != nil {
		return nil, err
	}
	s, err := ParseKeyset(text.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// CreateKeyFile writes a file with one random key, readable for its owner only. If the file exists it is unchanged, and
// the error wraps fs.ErrExist.
func CreateKeyFile(path, id string) error {
	if !isKeyID(id) {
		return fmt.Errorf("%w: %q is not a key id", reprise.ErrInvalid, id)
	}
	secret := make([]byte, secretBytes)
	rand.Read(secret)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s\n", id, base64.StdEncoding.EncodeToString(secret))
	return errors.Join(err, f.Sync(), f.Close(), syncFolder(filepath.Dir(path)))
}

// syncFolder makes new names in a folder survive a crash of the machine.
func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, fs.ErrInvalid) { // a file system without this operation
		err = nil
	}
	return errors.Join(err, dir.Close())
}
