package reprise

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"time"
)

// Store keeps batches of events. Backends implement it; programs use a Log.
//
// A Store is safe for concurrent use. Its methods block until they have the answer or the context is cancelled; then
// they return the cause of the cancellation. After Close all of them return ErrClosed.
//
// A temporary error (a lost connection, a full disk) wraps ErrUnavailable and leaves the Store usable: it must work
// again by itself once the cause is gone. A Store that may wait for a server limits that wait itself, to 10 seconds by
// default, whatever the context allows.
//
// An error must not wrap an error of a driver; only the driver's text survives. Otherwise an error of a driver could be
// mistaken for something else: io.EOF of a closed connection for the end of a stream, or context.Canceled of the driver
// for a cancellation by the caller.
//
// One Log at a time uses a Store, unless the Store is a Watcher. A Watcher may be shared by
// any number of Logs in any number of processes, its replicas. What a call has changed when it returns must be seen
// by every call that begins afterwards, on any of them.
//
// A Store that may have lost acknowledged events, for instance in a failover, must not assign their seqs again in the
// same epoch. When it detects the loss, at the next Read, Append or Create of the stream at the latest, it must put
// the stream into another epoch and add the old one to StreamInfo.Lineage, with the remaining tail as its fork; see
// StreamInfo.Renew. An append for the old epoch is refused with ErrNotFound. The owner and the producers stay as they
// are kept.
//
// A Store that wraps another one implements every optional ability (Watcher, Sweeper,
// Sizer, Concurrent, CreateAppender) and returns errors.ErrUnsupported if the wrapped Store does not implement it.
//
// Package storetest checks every rule below that says "must".
type Store interface {
	// Create makes the stream info.Key with info.Epoch, info.Config, info.Created and
	// info.Owner. For a stream that is copied from another Store, info.Tail, info.End,
	// info.Producers and info.Lineage are kept as given too; otherwise they are
	// zero. The other fields are zero.
	//
	// It must return the stream as it is kept, with no events: a new one has
	// Earliest info.Tail+1 and Bytes 0. If the stream exists with an equal configuration, Create must
	// return the existing stream and change nothing; with another
	// configuration it must return ErrConflict. The name of an expired stream
	// must be free again. Of concurrent calls exactly one must create.
	//
	// With a Revision above 0, Create makes no stream but changes one: in one step the stream must get info.Config,
	// info.Revision and, if it has ended, the Expires of info.End, and Create returns it as it is kept then. Nothing
	// else of the stream changes. Such a call must be refused with ErrNotFound if the stream does not exist in
	// info.Epoch, and with ErrConflict if its Revision is not info.Revision less one, unless the stream has
	// info.Revision and an equal configuration already.
	Create(ctx context.Context, info StreamInfo) (StreamInfo, error)

	// Append stores batches, at most one of each stream, in one commit. It
	// must return nil if all were stored, and otherwise one error for each
	// request, nil for those that were stored. Each request must be stored whole
	// or not at all, and must be durable when Append returns, to the level that
	// the Store documents.
	//
	// A request must be refused, in this order, with ErrNotFound if the stream does
	// not exist in that epoch, with ErrFenced if its Owner is neither the stream's nor
	// one with a higher Fence, with ErrEnded if the stream has ended, and with
	// ErrConflict if First is not its tail plus one or Revision is not the stream's. An Owner with a higher
	// Fence must become that of the stream in the same commit. An error that wraps ErrUnavailable leaves
	// open whether the batch was stored, and whether it will be: a request that is still
	// on its way may be stored later, as long as nothing else has taken its place.
	//
	// The Store may keep the Bytes of each request and must not change them.
	Append(ctx context.Context, reqs []AppendRequest) []error

	// Read returns the batches that hold the events after seq after, in order
	// and without a hole; the first may begin earlier. It must stop
	// after the first batch with which the page reaches maxBytes, so that a
	// page with something to give is never empty unless maxBytes is 0. Info,
	// window and batches must be one consistent view: batches must cover
	// everything from max(after+1, Earliest) on, to the tail unless maxBytes
	// cut them. A position beyond the tail must give an empty page.
	//
	// Finding the position must not cost more than O(log n) in the number of
	// batches. The error is ErrNotFound or, for a while after the stream was
	// swept, ErrExpired. The caller must not change what is returned.
	Read(ctx context.Context, key StreamKey, after uint64, maxBytes int) (Page, error)

	// List returns streams, the newest first, without their Producers. Streams
	// created before the first page was asked for and not removed meanwhile must each
	// appear exactly once over all pages. Expired streams must not appear.
	List(ctx context.Context, q ListQuery) (ListPage, error)

	// Remove forgets events or the whole stream; see RemoveSpec. It must be
	// idempotent: removing what is not there is no error, except that trimming a
	// stream that does not exist returns ErrNotFound.
	Remove(ctx context.Context, key StreamKey, spec RemoveSpec) error

	// Close releases everything. It must wait for calls under way, and closing
	// again must return nil.
	Close() error
}

// AppendRequest is one batch for one stream.
type AppendRequest struct {
	Key   StreamKey
	Epoch Epoch
	// Owner is the writer, or the zero Owner for a stream without an owner.
	Owner Owner
	// Revision is the one of the stream that the request relies on: with another configuration, the window would be
	// another one.
	Revision uint64
	// First is the seq of the first event, which is the tail plus one.
	First uint64
	// Count is the number of events, at least 1.
	Count int
	// Bytes is the encoded batch, opaque to the Store.
	Bytes []byte
	// Earliest is the new start of the window, at most First+Count: events
	// before it must not be counted as kept any more, and may be deleted later.
	Earliest uint64
	// Kept is the new StreamInfo.Bytes.
	Kept int64
	// End is set if the last event of the batch is the end event.
	End *End
	// Producers are the idempotent appends in this batch, to be kept with the
	// stream: each replaces the one with the same ID, and of more than
	// MaxProducers the oldest must be forgotten.
	Producers []Producer
}

// MaxProducers is the maximum number of idempotent producers that a stream remembers.
const MaxProducers = 64

// Producer is the newest append of an idempotent producer.
type Producer struct {
	// ID is 1 to 64 bytes, chosen by the producer.
	ID string
	// Epoch is chosen by the producer: a higher one fences off lower ones.
	Epoch uint64
	// Seq is the number of the append, counted by the producer from 0 in each epoch. With ProducerID.PerEvent it is the
	// number of the last event.
	Seq uint64
	// First and Last are the seqs of the appended events.
	First, Last uint64
}

// Batch is a sequence of consecutive events of one stream, as they were appended.
type Batch struct {
	// First is the seq of the first event.
	First uint64
	// Count is the number of events.
	Count int
	Bytes []byte
}

// Last is the seq of the last event.
func (b Batch) Last() uint64 { return b.First + uint64(b.Count) - 1 }

// Page is the answer of Store.Read.
type Page struct {
	Info    StreamInfo
	Batches []Batch
}

// ListQuery selects streams.
type ListQuery struct {
	// Tenant is the owner of the listed streams; "" lists the streams of all tenants.
	Tenant Tenant
	// Namespace is the exact namespace of the names, or "" for names without one.
	Namespace string
	// AllNamespaces lists every name.
	AllNamespaces bool
	// After is ListPage.Next of the page before, "" for the first page. A text
	// that no List returned must be refused with ErrInvalid.
	After string
	// Limit is the most streams to return, 1 to 1,000.
	Limit int
	// Open leaves out the streams that have ended, and Labels those without all of these labels. A Store may list them
	// all the same; Log.List does not return them. With Open or Labels, a page may have fewer streams than Limit, or
	// none, although there are more.
	Open   bool
	Labels map[string]string
}

// Takes reports whether Open and Labels take a stream.
func (q *ListQuery) Takes(info *StreamInfo) bool {
	if q.Open && info.End != nil {
		return false
	}
	for k, v := range q.Labels {
		if has, ok := info.Config.Labels[k]; !ok || has != v {
			return false
		}
	}
	return true
}

// ListPage is the answer of Store.List.
type ListPage struct {
	Streams []StreamInfo
	// Next is the value for ListQuery.After; it is "" on the last page.
	Next string
}

// RemoveSpec says what Store.Remove removes.
type RemoveSpec struct {
	// Trim, if not 0, removes the events with a lower seq, and nothing else. It
	// is at most the tail plus one; a lower value than the start of the
	// window changes nothing.
	Trim uint64
	// Kept is StreamInfo.Bytes after the trim.
	Kept int64
	// Remember, if not zero, leaves a mark in place of the whole stream: until that
	// time Read must answer ErrExpired, then ErrNotFound. With neither Trim nor
	// Remember the stream is gone without a trace.
	Remember time.Time
	// Epoch, if not "", makes the call do nothing for another epoch.
	Epoch Epoch
}

// Watcher is a Store that replicas share and that reports what the others do.
type Watcher interface {
	// Watch calls moved soon after another replica may have appended to the stream, changed its configuration, trimmed,
	// removed or swept it, until stop is called. It does not block, and moved must not
	// either. Changes made before Watch returns need not be reported. Where changes may have been missed, because a
	// connection was lost or is not up yet, moved must be called once they can be seen again. It may be called for no
	// reason, from any goroutine, and once more while stop returns.
	//
	// However many streams are watched, a replica must need no more than a fixed number of
	// connections for it. The error is errors.ErrUnsupported or ErrClosed.
	Watch(key StreamKey, moved func()) (stop func(), err error)
}

// Concurrent is a Store that completes several concurrent Appends in less time than one after the other, because most
// of that time is spent waiting for a server. A Log then has that many commits in progress, never two of the same
// stream.
type Concurrent interface {
	// ConcurrentAppends returns the useful number of concurrent calls of Append, at least 1. It never changes.
	ConcurrentAppends() int
}

// CreateAppender is a Store that makes a stream together with its first batch.
type CreateAppender interface {
	// CreateAppend is Create of info and, if that makes the stream, Append of first, in one commit. It must make the
	// stream with the batch or not at all. It must return the stream as it is kept then, which is what Append leaves of
	// first. A stream that exists must be left as it is, with the results of Create.
	//
	// Of info, Tail, End, Producers and Lineage are zero. first has the Key, Epoch and Owner of info, and First is 1.
	CreateAppend(ctx context.Context, info StreamInfo, first AppendRequest) (StreamInfo, error)
}

// Wrapper is a Store around another one whose data can only be read through it, such as one that compresses or
// encrypts. The store contains a marker that names its Wrappers; docs/internals/storage-wrappers.md has the rules. A
// wrapping Store that does not change stored data need not be a Wrapper. A method Unwrap of either returns the wrapped
// Store.
type Wrapper interface {
	// CheckMarker compares the Wrappers from outermost, which is this one or is around it, to the innermost Store with
	// the marker. It returns an error that wraps ErrInvalid if they differ. A store without a marker gets one. marked
	// means that a list of outermost contains the marker.
	CheckMarker(ctx context.Context, outermost Store) (marked bool, err error)
}

// Sweeper is a Store that finds expired streams without listing all of them.
type Sweeper interface {
	// Sweep removes up to limit streams whose End.Expires is not after now,
	// leaves a mark in the place of each until remember, and forgets marks whose time is
	// past. It returns the streams that it removed, without Producers. Of replicas that
	// sweep at the same time each stream is returned to one.
	Sweep(ctx context.Context, now, remember time.Time, limit int) ([]StreamInfo, error)
}

// Sizer is a Store that knows its size without listing all streams.
type Sizer interface {
	// Sizes returns what each tenant keeps.
	Sizes(ctx context.Context) (map[Tenant]Size, error)
}

// Size is what a tenant keeps.
type Size struct {
	Streams int64
	Events  int64
	// Bytes is the sum of StreamInfo.Bytes.
	Bytes int64
	// Overhead is what is kept in addition to the events. It must be the sum of StreamInfo.Overhead or, where names and
	// configurations count as they are encoded, more, but not five times as much.
	Overhead int64
}

// A batch is encoded as one record after another; the seq of a record is its
// place. The record of an event is
//
//	+------------------+-----------+--------+----------+------+------+
//	| length of what   | time, ms  | format | length   | type | data |
//	| follows: uvarint | 6 bytes   | 1 byte | of type  |      |      |
//	|                  | BE        |        | 1 byte   |      |      |
//	+------------------+-----------+--------+----------+------+------+
//
// Stores and their wrappers see the bytes alone. The format is version 1; what
// is at rest says so, see docs/internals/storage-sqlite.md.
const recordHead = 6 + 1 + 1

// maxMillis is the latest time that a record can hold, in the year 10889.
const maxMillis = 1<<48 - 1

var errBatch = errors.New("a batch that cannot be decoded")

// recordSize returns the number of bytes that appendRecord appends for e.
func recordSize(e *Event) int {
	size := recordHead + len(e.Data) + len(e.Type)
	if e.Type == "" {
		size += len(TypeMessage)
	}
	return (bits.Len(uint(size))+6)/7 + size // uvarint has seven bits a byte
}

// appendRecord appends the record of e, which checkEvent has accepted.
func appendRecord(dst []byte, e *Event, now int64) []byte {
	typ := e.Type
	if typ == "" {
		typ = TypeMessage
	}
	ms := now
	if !e.Time.IsZero() {
		ms = min(max(e.Time.UnixMilli(), 0), maxMillis)
	}
	dst = binary.AppendUvarint(dst, uint64(recordHead+len(typ)+len(e.Data)))
	dst = append(dst, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms),
		byte(e.Format), byte(len(typ)))
	dst = append(dst, typ...)
	return append(dst, e.Data...)
}

// recordEnd returns the end of the record that begins at start.
func recordEnd(b []byte, start int) (int, error) {
	size, n := binary.Uvarint(b[start:])
	if n <= 0 || size < recordHead || size > uint64(len(b)-start-n) {
		return 0, errBatch
	}
	return start + n + int(size), nil
}

// decodeRecord decodes the single record in b into e, except Seq. The data shares memory with b. If the type equals the
// present one of e, that string is kept, which saves an allocation for each event in a run of one type.
func decodeRecord(e *Event, b []byte) error {
	_, n := binary.Uvarint(b)
	if n <= 0 || len(b) < n+recordHead {
		return errBatch
	}
	b = b[n:]
	ms := int64(b[0])<<40 | int64(b[1])<<32 | int64(b[2])<<24 | int64(b[3])<<16 | int64(b[4])<<8 | int64(b[5])
	e.Time = time.UnixMilli(ms)
	e.Format = Format(b[6])
	end := recordHead + int(b[7])
	if end > len(b) {
		return errBatch
	}
	if typ := b[recordHead:end]; string(typ) != e.Type {
		e.Type = string(typ)
	}
	e.Data = b[end:len(b):len(b)]
	return nil
}

// Records yields the events of a batch, in the form that Stores keep, in order and with their Seq. It is for code that
// reads or changes batches below a Log: a wrapper of a Store, a check, a copy.
//
// If the bytes do not hold exactly b.Count events, the last thing yielded is an error; the events before it are valid.
// The Data of an event shares memory with b.Bytes.
func Records(b Batch) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var e Event
		at := 0
		for i := range b.Count {
			end, err := recordEnd(b.Bytes, at)
			if err == nil {
				err = decodeRecord(&e, b.Bytes[at:end])
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("event %d of %d, at byte %d: %w", i+1, b.Count, at, err))
				return
			}
			e.Seq = b.First + uint64(i)
			if at = end; !yield(e, nil) {
				return
			}
		}
		if at != len(b.Bytes) {
			yield(Event{}, fmt.Errorf("%d bytes after the last of %d events: %w", len(b.Bytes)-at, b.Count, errBatch))
		}
	}
}

// clock returns the time of the events of a commit.
type clock struct {
	ms    int64     // of the current commit, 0 until it is asked for
	read  time.Time // when the wall clock was read
	nanos int64     // its Unix time then
}

// wallEvery is the age at which a reading of the wall clock is not used any more.
const wallEvery = time.Millisecond

// milliseconds returns the Unix time of the commit. time.Now reads the wall clock and the monotonic one, which is a
// seventh of a lone append to memory. Therefore only the latter is read, unless the last reading of both is too old. A
// step of the wall clock is seen a millisecond later.
func (c *clock) milliseconds() int64 {
	if c.ms == 0 {
		since := time.Since(c.read)
		if since < 0 || since >= wallEvery {
			c.read, since = time.Now(), 0
			c.nanos = c.read.UnixNano()
		}
		c.ms = (c.nanos + int64(since)) / int64(time.Millisecond)
	}
	return c.ms
}

// AppendRecord appends e to the bytes of a batch, encoded as an append to a stream encodes it, and returns the extended
// slice. Seq is not encoded: it follows from the place in the batch. A zero Time becomes the current time, an empty
// Type "message".
//
// An event that a Log would refuse to append is refused with an error that wraps ErrInvalid, and dst is returned
// unchanged. However, the end event is accepted, and Data of any length below 2 GiB.
func AppendRecord(dst []byte, e *Event) ([]byte, error) {
	if err := checkEvent(e, math.MaxInt32, true); err != nil {
		return dst, err
	}
	return appendRecord(dst, e, time.Now().UnixMilli()), nil
}
