// Package storewrap has Stores that wrap another Store. Each changes one aspect of any Store,
// and they can be stacked.
//
//	store, _ := sqlitestore.Open(ctx, "reprise.db", nil)
//	keys, _ := reprise.LoadKeyset("store.keys")
//	encrypted, _ := storewrap.Encrypt(store, keys)
//	compressed, _ := storewrap.Compress(encrypted, nil)
//	log, _ := reprise.Open(ctx, compressed, nil)
//
// An append of a Log passes the outermost wrapper first: here it is compressed, then encrypted, then stored.
//
// The sensible order, from the outermost to the innermost, is
//
//	Cache      keep what was read in memory, in plain text
//	Compress   zstd and S2
//	Encrypt    AES-256-GCM
//	Prefix     a part of the Store, for a Log of its own
//	Retry      try again what fails for a cause that may pass
//	Observe    metrics of what the Store itself does
//
// All of them are optional; Observe and Prefix may be anywhere. Orders that cannot work are refused: encrypted bytes
// cannot be compressed, and nothing may be put twice. The constructors look through every wrapper that has a method
// Unwrap. Package reprise/x/storewrap has two more, Transform and Audit, which belong outside of these.
//
// The order of the wrappers that change stored data, the prefix of Prefix and the keys of Encrypt must
// not change while the data is kept. A Store can be wrapped by Compress later; by Encrypt it must be wrapped from
// its first stream on.
//
// # Common properties
//
// They implement the contract of reprise.Store. Package storetest checks each of them around two Stores, and all of
// them around each other. Prefix and Retry document the two deviations, both of Sweep. They have every optional ability
// and return errors.ErrUnsupported if the wrapped Store does not implement it. Closing a wrapper closes the
// wrapped Store, which waits for concurrent calls. Errors of the wrapped Store are returned unchanged. The counts in
// StreamInfo.Bytes and Sizes stay the Log's, before compression.
package storewrap
