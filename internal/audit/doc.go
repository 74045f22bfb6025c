// Package audit keeps a record of who did what, in a stream of a tenant of its own.
//
//	trail, err := audit.Open(ctx, log, keys.Derive("reprise audit 1"), nil)
//	err = trail.Record(ctx, audit.Entry{Principal: "ci.k7x2", Act: "POST /v1/executions"})
//	found, err := audit.Check(ctx, log, keys.Derive("reprise audit 1"))
//
// [Trail.Record] returns when the record is kept: a change is recorded before it is made, and is not made where that
// fails. [Trail.Note] takes what changes nothing and keeps it within a second. [Trail.Refuse] counts what was
// refused: one record for each sender, act and minute, and at most 1,000 of them a minute.
//
// Each process that writes has a chain of its own. A record holds its number in the chain, the code of the record
// before it, and a code over all of it (HMAC-SHA256), so that one that is changed, removed, moved or made up without
// the key shows. The first record of a chain holds the code of the newest one of all chains at that time. What nobody
// can see is that the newest records of a chain are missing, until another process has begun after them.
//
// A record holds no secret and no content.
package audit
