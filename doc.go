// Package reprise is an event log for streams that are read over connections that break.
//
// A program appends events to a stream. Any number of readers follow it, each from its own cursor. A reader that was
// cut off presents its cursor and gets every later event in order, or an explicit error that names the missing range.
//
//	store := memstore.New(nil)
//	log, _ := reprise.Open(ctx, store, nil)
//	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "builds/42"}
//	stream, _, _ := log.Create(ctx, key, reprise.StreamConfig{})
//
//	stream.Append(ctx, reprise.Event{Type: "stdout", Data: []byte("compiling\n")})
//	stream.Append(ctx, reprise.Event{Type: "stdout", Data: []byte("linking\n")})
//	stream.End(ctx, "completed", reprise.Event{})
//
//	reader, _ := stream.Reader(ctx, reprise.Earliest())
//	defer reader.Close()
//	for event, err := range reader.Events(ctx) {
//		...
//		fmt.Printf("%d %s %q\n", event.Seq, event.Type, event.Data)
//	}
//
// prints
//
//	1 stdout "compiling\n"
//	2 stdout "linking\n"
//	3 end ""
//
// # Streams, events, cursors
//
// An [Event] has a seq (1, 2, 3, ... in its stream), a time, a type and data. A stream is an ordered, append-only
// sequence of events with a name inside a [Tenant]. It has ended when its last event, the end, was appended.
//
// Each stream has an [Epoch], a random id. The stream gets another epoch when its name is used again or when the store
// may have lost events. So a position in a lost history is never mistaken for a position in the new one. The last event
// that two epochs share is the fork; positions up to the fork stay valid.
//
// A [Cursor] is the position just after an event. Its text is opaque to clients. It carries a tag that is computed with
// a secret of the server ([Keyset]) over tenant, stream and epoch, so forged cursors and cursors of another tenant or
// stream are refused. The tag is computed once per stream and then only compared.
//
// # Reading
//
// There is one reading path. A [Reader] is a position. It takes the events after the position from memory, which holds
// the newest events (the hot tail), or reads a page from the [Store], and waits when it is at the tail. There is no
// switch from "replay" to "live", and so no point at which events could be lost or duplicated. A slow reader falls back
// to the store by itself, and slows down neither the writer nor other readers. A reader that falls out of the window of
// kept events gets a [*WindowError], which has the number of missed events and the position to continue from.
//
// The wire form of events is encoded once for all readers of a stream ([Events.Encoded]). A reader that is behind gets
// all events that are ready in one piece.
//
// # Appending
//
// [Stream.Append] returns when the events are as durable as the store states. Appends to any streams that arrive during
// a commit go into the next commit together. A lone append commits at once, in the goroutine of its caller. With a
// [ProducerID] an append can be repeated after any error and takes effect once.
//
// # History is bounded
//
// A stream keeps its newest events within the bounds of its [Retention]: a number of events, a number of bytes, and an
// age that counts from its end. [Options] limit what a tenant and the process keep in total. At these limits, a stream
// that is appended to drops its own oldest events, never another stream's.
//
// # Guarantees
//
//   - G1, no silent loss: a reader that presents a cursor receives every later event in order, or
//     an explicit error that names the range it cannot receive.
//   - G2, no duplicates: a program that reads through package client receives each event exactly once.
//   - G3, one order: seq is contiguous within an epoch, so a client can prove by itself that nothing
//     is missing.
//   - G4, one end: an ended stream has exactly one end event, which is the last. A stream without one has not ended.
//   - G5, reading is harmless: it starts nothing, stops nothing, and takes nothing from other readers.
//   - G6, acknowledged is kept: to the level that the store states. Delivery follows the commit:
//     no reader receives an event that a crash could still take back.
//   - G7, bounded: memory per stream, reader and tenant, and history, have limits. A slow or noisy party
//     delays only itself.
//   - G8, isolation of tenants: a cursor or a stream name of another tenant is indistinguishable from one that does
//     not exist.
//   - G9, idempotent: creating a stream and appending an event under a key have their effect once. The key is the name
//     and configuration of the stream, and the producer's number of the append.
//
// These mechanisms provide them:
//
//   - A stream has one commit in progress at a time, which assigns the seqs (G3, G4). The tail that readers see moves
//     only after the store has confirmed the commit (G6).
//   - A commit touches only memory and the store's Append, so no stream waits for the history of another (G7).
//   - Position and window are compared under the lock that guards the window (G1).
//   - Events that may have been stored without acknowledgement are read back from the store before the next append to
//     that stream (G1, G9).
//
// # Replicas
//
// A [Store] that is a [Watcher] is shared: any number of Logs in any number of processes keep the same streams in it.
// A reader may begin at one Log and continue at another. A Log asks the store before it opens a reader or returns the
// state of a stream, so every replica sees what any of them has acknowledged. The store notifies a Log when streams
// with readers have moved.
//
// The store compares each append with its tail. When two replicas append at the same time, one is first and the other
// retries after it. A stream can have an [Owner], such as the replica that runs a command. Then no other owner may
// append until an owner with a higher fence takes over, and appends of the former owner are refused with [ErrFenced].
//
// # Stores
//
// A [Store] keeps batches of encoded events, which are opaque to it, and finds the batch that holds a position.
// Everything that must be alike on every store lives in [Log].
//
//   - Package memstore keeps batches in memory, sqlitestore in a file, and logstore, which is experimental, in a log of
//     its own.
//   - Packages redisstore, pgstore and natsstore keep them on servers that replicas share.
//   - Package storewrap adds compression, encryption and more to any store.
//   - Package storetest checks any implementation against the contract.
//
// # Stability
//
// Before version 1.0 a minor release may change the Go API; CHANGELOG.md says how to adapt to each change. Three things
// stay compatible even before 1.0: the wire contract under /v1, issued cursors, and stored data, which a newer version
// reads or migrates.
//
// From 1.0 on the packages outside of internal/ follow semantic versioning: what compiles against one 1.x release
// compiles against later ones, except that interfaces which only this module implements may get methods. [Store] is not
// one of them; new abilities of a Store are interfaces of their own.
//
// An identifier that will be removed is first marked "Deprecated:" with its replacement, and stays for two minor
// releases and at least six months. The log of the server names deprecated flags and HTTP members for as long.
package reprise
