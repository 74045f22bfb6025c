package supervisor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The files in the directory of a run.
const (
	lockFile   = "lock"
	socketFile = "sock"
	// SecretFile is next to the directories of runs. It contains the secret by which supervisors recognize a server.
	SecretFile = "secret"
)

// ErrHeld is returned for a directory whose supervisor lives.
var ErrHeld = errors.New("the supervisor lives")

// VersionError is returned for data of a newer version.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("version %d of the supervisor is newer than this server, which knows those up to %d",
		e.Version, Version)
}

// Create creates the directory of a run with an unlocked lock file.
func Create(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600)
}

// LoadSecret returns the secret in the directory that contains the directories of runs. It creates a missing one.
func LoadSecret(runs string) (string, error) {
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(runs, SecretFile)
	text, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(text))) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	secret := rand.Text()
	return secret, WriteFile(path, []byte(secret+"\n"))
}

// WriteFile writes a file that only its owner can access. The file appears complete or not at all.
func WriteFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// WriteFileSync is WriteFile for what must be there after a crash of the machine.
func WriteFileSync(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return RenameSync(path+".new", path)
}

// RenameSync renames a file within its directory so that it has its new name after a crash of the machine.
func RenameSync(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
