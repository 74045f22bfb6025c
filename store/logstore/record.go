package logstore

import (
	"time"

	"reprise"
)

// kind is what a record says.
type kind uint64

const (
	kindCreate kind = 1 + iota // a stream begins; it may take the place of a mark
	kindAppend                 // a batch, and the state of its stream after it
	kindTrim                   // events leave the window
	kindRemove                 // a stream or a mark goes, or a stream becomes a mark
	kindMove                   // a batch lies here from now on
	kindClose                  // the store was closed; nothing changes
)

// record is one change of the state. In a frame, one stands behind the other:
//
//	create   kind, id, stream (see appendInfo)
//	append   kind, id, first, count, earliest, kept, flags, [end], [producers], [owner], batch
//	trim     kind, id, earliest, kept
//	remove   kind, id, until
//	move     kind, id, first, count, batch
//	close    kind, id 0
//
//	batch    size, CRC of id, first, count and bytes (4 bytes), bytes
type record struct {
	kind kind
	id   uint64 // of the stream; never used again

	info *reprise.StreamInfo // of create

	first, count, earliest uint64
	kept                   int64
	end                    *reprise.End
	producers              []reprise.Producer
	owner                  *reprise.Owner // nil if it stays

	bytes []byte
	at    int64 // where the CRC of the batch lies in its segment

	until time.Time // of remove: a mark stays until then, none if it is zero
}

const (
	hasEnd = 1 << iota
	hasProducers
	hasOwner
	unknownFlags // and all above: of no version
)

// encode appends r to a frame that begins with dst, and notes where the batch lies in it.
func (r *record) encode(dst []byte) []byte {
	dst = appendUints(dst, uint64(r.kind), r.id)
	switch r.kind {
	case kindCreate:
		return appendInfo(dst, r.info)
	case kindTrim:
		return appendUints(dst, r.earliest, uint64(r.kept))
	case kindRemove:
		return appendTime(dst, r.until)
	case kindClose:
		return dst
	case kindMove:
		return r.encodeBatch(appendUints(dst, r.first, r.count))
	}
	var flags uint64
	if r.end != nil {
		flags |= hasEnd
	}
	if len(r.producers) > 0 {
		flags |= hasProducers
	}
	if r.owner != nil {
		flags |= hasOwner
	}
	dst = appendUints(dst, r.first, r.count, r.earliest, uint64(r.kept), flags)
	if r.end != nil {
		dst = appendEnd(dst, r.end)
	}
	if len(r.producers) > 0 {
		dst = appendProducers(dst, r.producers)
	}
	if r.owner != nil {
		dst = appendOwner(dst, *r.owner)
	}
	return r.encodeBatch(dst)
}

func (r *record) encodeBatch(dst []byte) []byte {
	dst = appendUints(dst, uint64(len(r.bytes)))
	r.at = int64(len(dst))
	dst = le.AppendUint32(dst, batchSum(r.id, r.first, r.count, r.bytes))
	return append(dst, r.bytes...)
}

// records yields the records of a frame that lies at an offset of its segment. Their bytes are those of the frame.
func records(frame []byte, at int64, yield func(*record) error) error {
	for c := (cutter{b: frame[frameBytes:]}); len(c.b) > 0; {
		r := c.record()
		if c.bad {
			return damaged("a record at %d", at)
		}
		if r.bytes != nil {
			r.at = at + int64(len(frame)-len(c.b)-len(r.bytes)-sumBytes)
		}
		if err := yield(&r); err != nil {
			return err
		}
	}
	return nil
}

func (c *cutter) record() record {
	r := record{kind: kind(c.uint()), id: c.uint()}
	switch r.kind {
	case kindCreate:
		r.info = c.info()
	case kindTrim:
		r.earliest, r.kept = c.uint(), int64(c.uint())
	case kindRemove:
		r.until = c.time()
	case kindClose:
	case kindMove:
		r.first, r.count = c.uint(), c.uint()
		c.batch(&r)
	case kindAppend:
		r.first, r.count, r.earliest, r.kept = c.uint(), c.uint(), c.uint(), int64(c.uint())
		flags := c.uint()
		if flags&hasEnd != 0 {
			r.end = c.end()
		}
		if flags&hasProducers != 0 {
			r.producers = c.producers()
		}
		if flags&hasOwner != 0 {
			owner := c.owner()
			r.owner = &owner
		}
		c.bad = c.bad || flags >= unknownFlags
		c.batch(&r)
	default:
		c.fail()
	}
	return r
}

// batch takes the bytes of a batch, whose checksum is compared.
func (c *cutter) batch(r *record) {
	size := c.uint()
	sum := c.take(sumBytes)
	r.bytes = c.take(size)
	if c.bad || r.count == 0 || le.Uint32(sum) != batchSum(r.id, r.first, r.count, r.bytes) {
		c.fail()
	}
}
