// Package storewrap holds Stores around a Store: each changes one thing about every Store
// that there is, and they stack.
//
//	store, _ := sqlitestore.Open(ctx, "reprise.db", nil)
//	keys, _ := storewrap.LoadKeyset("store.keys")
//	encrypted, _ := storewrap.Encrypt(store, keys)
//	compressed, _ := storewrap.Compress(encrypted, nil)
//	log, _ := reprise.Open(ctx, compressed, nil)
//
// What a Log appends goes through the outermost wrapper first: here it is compressed, then encrypted, then stored.
//
// From the outermost to the innermost, the order that makes sense is
//
//	Audit      a record of each change, never of data
//	Transform  change, redact or drop events
//	Cache      keep what was read in memory, in plain text
//	Compress   zstd and S2
//	Encrypt    AES-256-GCM
//	Prefix     a part of the Store, for a Log of its own
//	Retry      try again what fails for a cause that may pass
//	Observe    metrics of what the Store itself does
//
// Any of them may be left out; Audit, Observe and Prefix may be anywhere. What cannot work is refused: encrypted bytes
// cannot be compressed, a Transform must see plain events, and a Retry tells a stored batch by the bytes that it has
// appended. The constructors look through every wrapper that has a method Unwrap.
//
// The order of those that change what is stored, and what Prefix and the key of an Encrypt are, must
// stay as it was for as long as the data is kept. A Store can be wrapped by Compress later; by Encrypt it must be from
// its first stream on.
//
// # What is common to all
//
// They are Stores and keep the contract of reprise.Store; package storetest checks each of them around two Stores,
// and all of them around each other. What is not kept to the letter is said at Prefixed.Sweep and at Retrying.Sweep.
// They have every optional ability and return errors.ErrUnsupported if the Store inside does not implement it.
// Closing one closes the Store inside, which waits for the calls under way. Errors of the Store inside come through
// as they are. What is counted, in StreamInfo.Bytes and Sizes, stays what the Log has counted, before anything was
// compressed.
package storewrap
