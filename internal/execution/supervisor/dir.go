package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"reprise/internal/durable"
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

// LoadSecret returns the secret in the directory that contains the directories of runs. It creates one that is missing
// or too short.
func LoadSecret(runs string) (string, error) {
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return "", err
	}
	return durable.Secret(filepath.Join(runs, SecretFile))
}

// WriteFile writes a file that only its owner can access. The file appears complete or not
// at all, except after a crash of the machine.
func WriteFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
