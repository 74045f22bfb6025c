// Package reprise is an event log for streams that are read over connections which
// break. A program appends events to a stream. Any number of readers follow it, each
// from its own cursor. A reader that was cut off presents its cursor and
// gets every later event in order, or an explicit error that names the missing range.
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
// An [Event] has a seq (1, 2, 3, ... in its stream), a time, a type and data. A
// stream is an ordered, append-only run of events with a name inside a [Tenant]; it
// has ended when its last event, the end, was appended. A stream has an [Epoch], a random id. It gets another one
// when its name is used again or when the store may have lost events, so that a position in the history that was lost
// is not mistaken for one in the new history. Up to the fork, the last event that both epochs share, positions stay
// good.
//
// A [Cursor] is the position just after an event. Its text is opaque to those who
// get it, and carries a tag made with a secret of the server ([Keys]) over tenant,
// stream and epoch: a cursor of another tenant or stream, or one that was made up, is
// refused. The tag is made once for a stream and compared, not computed, after that.
//
// # Reading
//
// There is one way to read. A [Reader] is a position; it takes events after it
// from memory, where the newest ones are kept (the hot tail), or a page of
// them from the [Store], and waits when it is at the tail. There is no "replay" that hands
// over to "live", and so no seam at which events could be lost or doubled. A reader
// that is slow falls back to the store by itself; it costs neither the writer nor
// other readers anything. When it falls out of the window of kept events it gets a
// [*WindowError], which says how many events it missed and where it can go on.
//
// What goes over the wire is made once for all readers of a stream ([Run.Encoded]), and
// a reader that is behind gets as many events in one piece as are ready.
//
// # Appending
//
// [Stream.Append] returns when the events are kept as safely as the store states. All
// appends that arrive while a commit is under way, of whatever streams, go into the next
// one together; one that comes alone goes at once, in its own goroutine.
// With a [ProducerID] an append can be tried again after any error and is kept once.
//
// # History is bounded
//
// A stream keeps its newest events within the bounds of its [Retention]: a number of
// events, a number of bytes, and an age that counts from its end. [Options] bound
// what a tenant and the process keep in all. When those are reached, a stream that is appended to gives
// up its own oldest events: no stream costs another its events.
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
//     delays nobody but itself.
//   - G8, isolation of tenants: a cursor or a stream name of another tenant is indistinguishable from one that does
//     not exist.
//   - G9, idempotent: creating a stream and appending an event under a key have their effect once. The key is the name
//     and configuration of the stream, and the producer's number of the append.
//
// They hold for these reasons. A stream has one commit under way at a time, which gives the seqs (G3, G4) and, after
// the store has answered, moves the tail that readers see (G6). A commit touches memory and the store's Append alone,
// so that no stream waits for another one's history (G7). Position and window are compared under the lock that the
// window moves under (G1). Whatever may have been stored and was not acknowledged is read back from the store before
// the next append to that stream (G1, G9).
//
// # Replicas
//
// A [Store] that is a [Watcher] is shared: any number of Logs in any number of processes keep the same streams in it,
// and a reader may begin at one and go on at another. A replica asks the store before it
// opens a reader or tells the state of a stream, so that what any replica has acknowledged is seen
// by all, and is told by the store when streams with readers have moved. Appends are compared with the tail in the
// store: of two replicas that append at the same time one is first, and the other tries again after it. A stream can
// have an [Owner], such as the replica that runs a command: then nobody else may append until an owner with a
// higher fence takes over, and appends of the former owner are refused with [ErrFenced].
//
// # Stores
//
// A [Store] keeps batches of encoded events, which are opaque to it, and finds the
// batch that holds a position. Package memstore keeps them in memory, sqlitestore in a file, and logstore, which is
// experimental, in a log of its own; redisstore, pgstore and natsstore keep them on servers that replicas
// share. Package storewrap puts compression, encryption and more around any of them. All that must be alike on
// every store lives in [Log]. Package storetest checks any implementation
// against the contract.
//
// # Stability
//
// Before version 1.0 a minor release may change the Go API; CHANGELOG.md says what to do about each change. Three
// things do not break before 1.0 either: the wire contract under /v1, cursors that were handed out, and data that was
// stored, which a newer version reads or migrates.
//
// From 1.0 on the packages outside of internal/ follow semantic versioning: what compiles against one 1.x release
// compiles against later ones, except that interfaces which only this module implements may get methods. [Store] is not
// one of them; new abilities of a Store are interfaces of their own.
//
// What is to go is first marked "Deprecated:" with its replacement, and stays for two minor releases and at least six
// months. A flag or an HTTP member that is to go is named in the log of the server for as long.
package reprise
