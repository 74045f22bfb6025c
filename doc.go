// Package reprise is an event log for streams that are read over connections which
// break. A program appends events to a stream; any number of readers follow it, each
// from a cursor of its own; and a reader that was cut off shows its cursor and
// gets every later event in order, or is told in so many words what it cannot get.
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
// has ended when its last event, the end, was appended. Each life of a name has an
// [Epoch], a random id: a name that is used again, or whose history was lost, gets
// another one, so that positions of the old life cannot be mistaken for those of the new.
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
// [*WindowError], which says how many events it has missed and where it can go on.
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
//   - G1, no silent loss: a reader that shows a cursor gets every later event in order, or
//     an error that says what it cannot get.
//   - G2, no duplicates: package client gives a program each event exactly once, however often
//     the connection breaks.
//   - G3, one order: seq is contiguous within an epoch, so a client can prove by itself that nothing
//     is missing.
//   - G4, one end: an ended stream has exactly one end event, which is the last. A stream without it is not finished.
//   - G5, reading is harmless: it starts nothing, stops nothing, and takes nothing from other readers.
//   - G6, acknowledged is kept: to the level that the store states. Delivery follows the commit:
//     nobody is shown an event that a crash could still take back.
//   - G7, bounded: memory per stream and reader, and history, have limits. The slow and the
//     noisy pay for themselves.
//   - G8, yours only: a cursor or a stream of another tenant is as good as one that does not exist.
//   - G9, once: creating a stream and appending to it are idempotent under a key: the name and
//     configuration of the stream, and the producer's number of the append.
//
// Why they hold, in short. One goroutine at a time commits, gives the seqs (G3, G4) and, after the store has
// answered, moves the tail that readers see (G6). Readers take what
// lies after their position, and position and window are compared under the same lock
// that the window moves under (G1). Whatever may have been stored and
// was not acknowledged is read back from the store before the next append to that stream (G1, G9).
//
// # Replicas
//
// A [Store] that is a [Watcher] is shared: any number of Logs in any number of processes keep the same streams in it,
// and a reader may begin at one and go on at another. A replica asks the store before it
// opens a reader or tells the state of a stream, so that what any replica has acknowledged is seen
// by all, and is told by the store when streams with readers have moved. Appends are compared with the tail in the
// store: of two replicas that append at the same time one is first, and the other tries again behind it. A stream can
// have an [Owner], such as the replica that runs a command: then nobody else may append, until one with a
// higher fence takes over, and what the former owner still sends is refused with [ErrFenced].
//
// # Stores
//
// A [Store] keeps batches of encoded events, which are opaque to it, and finds the
// batch that holds a position. Package memstore keeps them in memory and sqlitestore in a file; redisstore, pgstore and
// natsstore keep them on servers that replicas share. Package storewrap puts compression, encryption and more around any of them.
// All that must be alike on every store lives in [Log]. Package storetest checks any implementation
// against the contract.
package reprise
