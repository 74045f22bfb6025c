package reprise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"time"
)

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
// is at rest says so, see docs/storage-sqlite.md.
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

// appendRecord appends the record of e, which must have been checked.
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

// clock tells the time of the events of a commit.
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
