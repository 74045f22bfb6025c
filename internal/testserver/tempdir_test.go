package testserver_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"reprise/internal/testserver"
)

// TestTempDirIsRemovedUnderWriters: what a killed server has started may still make directories while its test ends.
func TestTempDirIsRemovedUnderWriters(t *testing.T) {
	var dir string
	made := make(chan error, 1)
	t.Run("killed", func(t *testing.T) {
		dir = testserver.TempDir(t)
		begun := make(chan bool)
		go func() {
			close(begun)
			var err error
			for n := range 1000 {
				if err = os.Mkdir(filepath.Join(dir, fmt.Sprint("spare-", n)), 0o700); err != nil {
					break
				}
				_, _ = os.ReadFile("/proc/self/status") // so that the removal now and then finds nothing for a moment
			}
			made <- err
		}()
		<-begun
	})
	if err := <-made; err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}
