package pgstore

import "context"

// Stats says how large things are.
type Stats struct {
	// Streams counts those that can be read, Marks the swept ones that are remembered.
	Streams int64 `json:"streams"`
	Marks   int64 `json:"marks"`
	// Events and KeptBytes add up the windows of the streams.
	Events    int64 `json:"events"`
	KeptBytes int64 `json:"kept_bytes"`
	// Partitions is how many the table batches has, and BatchBytes what they take on the disk with their
	// indexes, batches that have left their windows included.
	Partitions int64 `json:"partitions"`
	BatchBytes int64 `json:"batch_bytes"`
	// OtherBytes is what the other tables take.
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
	if err := s.enter(ctx); err != nil {
		return Stats{}, err
	}
	defer s.use.RUnlock()
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
