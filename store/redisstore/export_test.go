package redisstore

import (
	"context"

	"reprise"
)

// Relist runs the search that Sizes starts.
func (s *Store) Relist(ctx context.Context) error { return s.relist(ctx) }

// Searching reports whether a search that Sizes has started is running.
func (s *Store) Searching() bool { return s.searches.busy.Load() }

// TryTrim trims a stream on the server whose history is server, if that of the stream is trusted there. It returns the
// first part of the answer of remove.lua.
func (s *Store) TryTrim(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec, trusted, server string) (
	string, error,
) {
	return s.tryTrim(ctx, key, &spec, trusted, server)
}
