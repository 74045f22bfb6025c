// Package apikey stores API keys: their principal, tenant, scopes and expiry.
//
//	keys, err := apikey.Open(ctx, apikey.File(path), nil)
//	key, secret, err := keys.Add(ctx, apikey.Request{Name: "ci", Tenant: "default", Scopes: scopes})
//	gate := identity.NewGate(signing, identity.Verifiers{token, keys}, nil)
//
// The text of a key is "rp_<id>_<160 random bits>". It is shown once, when the key is made or rotated; only its digest
// is stored.
//
// A [Journal] contains a record for each change: [File] in a file of one process, [Stream] in a stream that replicas
// share, where each replica follows the changes of all. The newest record of a key counts, except that a revoked key
// stays revoked. Each replica also records revoked credentials in a file of its own, and revokes them
// again in a store that has lost the revocation. So a failover does not bring a key back.
//
// Open requests of a principal end with its credential: [identity.Principal.Revoked] is closed at once on the replica
// that revokes, and on the others when they have read the record.
package apikey
