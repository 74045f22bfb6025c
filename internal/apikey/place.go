package apikey

import (
	"path/filepath"

	"reprise"
	"reprise/internal/journal"
)

// apiKeysFile and revokedFile are in the data directory: the API keys where no replicas share a store, and which
// credentials were revoked where they do.
const (
	apiKeysFile = "api-keys"
	revokedFile = "revoked"
)

// In returns where a server with a data directory keeps its API keys: in its log if replicas share it, else in a file.
// log may be nil.
func In(dir string, log *reprise.Log) (journal.Journal, *Options) {
	if log != nil && log.Shared() {
		return Stream(log), &Options{Revoked: filepath.Join(dir, revokedFile)}
	}
	return journal.File(filepath.Join(dir, apiKeysFile)), &Options{}
}
