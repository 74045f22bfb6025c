package sqlitestore

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"zombiezen.com/go/sqlite"
)

// Stats holds counts and sizes of a Store.
type Stats struct {
	// FileBytes and WALBytes are the sizes of the file and of its write-ahead log.
	FileBytes int64 `json:"file_bytes"`
	WALBytes  int64 `json:"wal_bytes"`
	// FreeBytes is the part of both that new data takes before they grow.
	FreeBytes int64 `json:"free_bytes"`
	// Streams is the number of streams that can be read. Marks is the number of swept streams that are remembered.
	Streams int64 `json:"streams"`
	Marks   int64 `json:"marks"`
	// Events and KeptBytes are sums over the windows of all streams.
	Events    int64 `json:"events"`
	KeptBytes int64 `json:"kept_bytes"`
	// Rows is the number of rows of the table batches. Commits is the number of rows of the journal. JournalBytes is
	// the size of the data that waits there to be folded.
	Rows         int64 `json:"rows"`
	Commits      int64 `json:"commits"`
	JournalBytes int64 `json:"journal_bytes"`
}

// Stats measures the store.
func (s *Store) Stats(ctx context.Context) (_ Stats, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return Stats{}, err
	}
	defer s.use.Leave()
	sizes, err := s.sizes(ctx)
	if err != nil {
		return Stats{}, err
	}
	var stats Stats
	for _, size := range sizes {
		stats.Streams += size.Streams
		stats.Events += size.Events
		stats.KeptBytes += size.Bytes
	}
	for _, file := range []struct {
		path string
		size *int64
	}{{s.path, &stats.FileBytes}, {s.path + "-wal", &stats.WALBytes}} {
		info, err := os.Stat(file.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Stats{}, err
		}
		if err == nil {
			*file.size = info.Size()
		}
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error { return stats.count(conn) })
	return stats, err
}

func (s *Stats) count(conn *sqlite.Conn) error {
	free, err := pragma(conn, "freelist_count")
	if err != nil {
		return err
	}
	s.FreeBytes = free * pageSize
	for _, c := range []struct {
		query string
		value *int64
	}{
		{`SELECT count(*) FROM streams WHERE mark IS NOT NULL`, &s.Marks},
		{`SELECT count(*) FROM batches`, &s.Rows},
		{`SELECT count(*) FROM commits`, &s.Commits},
		{`SELECT coalesce(sum(length(data)), 0) FROM commits`, &s.JournalBytes},
	} {
		stmt, err := conn.Prepare(c.query)
		if err != nil {
			return err
		}
		_, err = stmt.Step()
		*c.value = stmt.ColumnInt64(0)
		if err := errors.Join(err, stmt.Reset()); err != nil {
			return err
		}
	}
	return nil
}
