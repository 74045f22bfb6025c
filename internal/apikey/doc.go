// Package apikey keeps API keys: who they stand for, in which tenant, with which scopes and until when.
//
//	keys, err := apikey.Open(ctx, apikey.File(path), nil)
//	key, secret, err := keys.Add(ctx, apikey.Request{Name: "ci", Tenant: "default", Scopes: scopes})
//	gate := identity.NewGate(signing, identity.Verifiers{token, keys}, nil)
//
// The text of a key is "rp_<id>_<160 random bits>". It is shown once, when the key is made or rotated; what is kept is
// its digest.
//
// A [Journal] keeps a record for each change: [File] in a file of one process, [Stream] in a stream that replicas
// share, where each replica follows the changes of all. The newest record of a key counts, but that a key once
// revoked stays so. Each replica also remembers in a file of its own which credentials were revoked, and revokes them
// again in a store that has lost that: a failover brings no key back.
//
// What a principal has under way ends with its credential: [identity.Principal.Revoked] is done at once on the replica
// that revokes, and on the others when they have read the record.
package apikey
