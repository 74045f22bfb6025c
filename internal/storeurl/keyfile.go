package storeurl

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"reprise"
	"reprise/internal/durable"
)

// loadKeyFile parses the file at path with reprise.ParseKeyset. The error also wraps reprise.ErrInvalid if anyone but
// the owner may read or write the file. A missing file is an error, since data that was encrypted with lost keys cannot
// be recovered.
func loadKeyFile(path string) (*reprise.Keyset, error) {
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
	s, err := reprise.ParseKeyset(text.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// createKeyFile writes a file with one random key, readable for its owner only. If the file exists it is unchanged, and
// the error wraps fs.ErrExist.
func createKeyFile(path, id string) error {
	secret := make([]byte, 32)
	rand.Read(secret)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s\n", id, base64.StdEncoding.EncodeToString(secret))
	return errors.Join(err, f.Sync(), f.Close(), durable.SyncDir(filepath.Dir(path)))
}
