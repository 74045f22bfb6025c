package sqlitestore

import (
	"fmt"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"reprise/store/internal/driver"
)

// maxRewrite is the maximum size in bytes of a file that is rewritten when it is opened, which takes a second or two.
const maxRewrite = 256 << 20

// enableVacuum rewrites a file that cannot return free pages, so that it can. This happens once. The error says why the
// file stays as it is: it is too large, or the disk has less free space than a rewrite takes, which is the size of the
// file and its write-ahead log.
func (s *Store) enableVacuum(conn *sqlite.Conn) error {
	mode, err := pragma(conn, "auto_vacuum")
	if err != nil || mode != 0 {
		return err
	}
	pages, err := pragma(conn, "page_count")
	if err != nil {
		return err
	}
	size := pages * pageSize
	if size > s.maxRewrite() {
		return fmt.Errorf("it has %d bytes, up to %d are rewritten: "+
			"copy it into a new file with \"reprise store copy\"", size, s.maxRewrite())
	}
	room, err := driver.FreeBytes(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	if room < 3*size {
		return fmt.Errorf("the disk has %d bytes free, rewriting takes up to %d", room, 3*size)
	}
	return execute(conn, "PRAGMA auto_vacuum=INCREMENTAL", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")
}

// maxRewrite returns a smaller limit in tests.
func (s *Store) maxRewrite() int64 {
	if s.opts.maxRewrite > 0 {
		return s.opts.maxRewrite
	}
	return maxRewrite
}
