// Package registry keeps definitions, such as webhooks and schedules, that all replicas of a store share.
//
//	hooks, err := registry.Open[Hook](ctx, log, key, nil)
//	err = hooks.Set(ctx, id, 0, &hook)
//	for id, entry := range hooks.All() { ... }
//
// Each change is an event of one stream, which every replica follows: what one has changed all know within
// moments, and a restart reads it again. A definition has a version. A change names the version that it is made
// to, and of several that name the same one the first in the stream counts; the others get reprise.ErrConflict.
// The stream is made with the first change, so a server without definitions writes nothing.
package registry
