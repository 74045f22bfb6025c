package reprise

import (
	"fmt"
	"iter"
	"math"
	"time"
)

// Records yields the events of a batch as Stores keep it, in order, each with its Seq. It is
// for what looks into or changes batches below a Log: a Store around a Store, a check, a copy.
//
// Where the bytes do not hold exactly b.Count events an error is the last thing yielded; the
// events before it are as they were appended. The Data of an event shares its memory with b.Bytes.
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

// AppendRecord appends e to the bytes of a batch, as an append to a stream encodes it, and
// returns the extended slice. Seq is not encoded: it follows from the place in the batch. A Time that is
// zero becomes the present, an empty Type "message".
//
// What a Log would refuse to append is refused with an error that wraps ErrInvalid, and dst comes
// back as it was; but the end event is taken, and Data of any length below 2 GiB.
func AppendRecord(dst []byte, e *Event) ([]byte, error) {
	if err := checkEvent(e, math.MaxInt32, true); err != nil {
		return dst, err
	}
	return appendRecord(dst, e, time.Now().UnixMilli()), nil
}
