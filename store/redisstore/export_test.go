package redisstore

import "context"

// Relist runs the search that Sizes starts.
func (s *Store) Relist(ctx context.Context) error { return s.relist(ctx) }

// Searching reports whether a search that Sizes has started is running.
func (s *Store) Searching() bool { return s.searches.busy.Load() }
