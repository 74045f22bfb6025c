// Package audit keeps a record of who did what, in a stream of a tenant of its own.
//
//	trail, err := audit.Open(ctx, log, keys.Derive("reprise audit 1"), nil)
//	err = trail.Record(ctx, audit.Entry{Principal: "ci.k7x2", Act: "POST /v1/executions"})
//	found, err := audit.Check(ctx, log, keys.Derive("reprise audit 1"))
//
// [Trail.Record] returns when the record is stored: a change is recorded before it is made, and is not made if that
// fails. [Trail.Note] records reads within a second. [Trail.Refuse] counts refusals:
// one record for each sender, action and minute, and at most 1,000 of them a minute.
//
// Each writing process has a chain of its own. A record contains its number in the chain, the code of the record
// before it, and a code over all of it (HMAC-SHA256). So a record that is changed, removed, moved or forged without
// the key is detected. The first record of a chain contains the code of the newest one of all chains at that time. It
// cannot be detected that the newest records of a chain are missing, until another process has begun after them.
//
// A record holds no secret and no content.
package audit
