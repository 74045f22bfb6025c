// Package registry keeps definitions, such as webhooks and schedules, that all replicas of a store share.
//
//	hooks, err := registry.Open[Hook](ctx, log, key, nil)
//	err = hooks.Set(ctx, id, 0, &hook)
//	for id, entry := range hooks.All() { ... }
//
// Each change is an event of one stream that every replica follows, so all replicas know a change within moments, and a
// restart reads it again. A definition has a version. A change names the version that it replaces. If several changes
// name the same version, the first in the stream takes effect and the others return reprise.ErrConflict. The stream is
// created with the first change, so a server without definitions writes nothing.
package registry
