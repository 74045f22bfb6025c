package pgstore

import "context"

// Stats holds counts and sizes of a Store.
type Stats struct {
	// Streams is the number of streams that can be read. Marks is the number of swept streams that are remembered.
	Streams int64 `json:"streams"`
	Marks   int64 `json:"marks"`
	// Events and KeptBytes are sums over the windows of all streams.
	Events    int64 `json:"events"`
	KeptBytes int64 `json:"kept_bytes"`
	// Partitions is the number of partitions of the table batches. BatchBytes is their size on disk with indexes,
	// including batches that have left their windows.
	Partitions int64 `json:"partitions"`
	BatchBytes int64 `json:"batch_bytes"`
	// OtherBytes is the size of the other tables.
	OtherBytes int64 `json:"other_bytes"`
}

const statsStatement = `SELECT
	(SELECT count(*) FROM {schema}.marks),
	(SELECT count(*) FROM {schema}.parts),
	(SELECT coalesce(sum(pg_total_relation_size(to_regclass('{schema}.batches_' || n))), 0)::bigint FROM {schema}.parts),
	(SELECT sum(pg_total_relation_size(to_regclass('{schema}.' || t)))::bigint FROM unnest(ARRAY['streams', 'producers', 'ancestors', 'marks', 'parts']) t)`

// Stats measures the store.
func (s *Store) Stats(ctx context.Context) (_ Stats, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return Stats{}, err
	}
	defer s.use.Leave()
	var stats Stats
	sizes, err := s.sizes(ctx)
	if err != nil {
		return Stats{}, err
	}
	for _, size := range sizes {
		stats.Streams += size.Streams
		stats.Events += size.Events
		stats.KeptBytes += size.Bytes
	}
	err = s.run(ctx, s.sql.stats, new(params), func() takeRow {
		return func(row [][]byte) error {
			stats.Marks, stats.Partitions = int8Of(row[0]), int8Of(row[1])
			stats.BatchBytes, stats.OtherBytes = int8Of(row[2]), int8Of(row[3])
			return nil
		}
	})
	return stats, err
}
