package logstore

import (
	"time"

	"reprise"
)

// kind is the type of a record.
type kind uint64

const (
	kindCreate    kind = 1 + iota // creates a stream, possibly in place of a mark
	kindAppend                    // adds a batch and sets the state of its stream
	kindTrim                      // removes events from the window
	kindRemove                    // removes a stream or a mark, or turns a stream into a mark
	kindMove                      // changes the place of a batch
	kindClose                     // earlier versions wrote it when they closed a store; changes nothing
	kindConfigure                 // changes the configuration of a stream
	kindRenew                     // moves a stream to another epoch
)

// record is one change of the state. A frame is a sequence of records:
//
//	create   kind, id, stream (see appendInfo)
//	append   kind, id, first, count, earliest, kept, flags, [end], [producers], [owner], batch
//	trim     kind, id, earliest, kept
//	remove   kind, id, until
//	move     kind, id, first, count, batch
//	close    kind, id 0
//	configure kind, id, revision, configuration, until
//	renew    kind, id, epoch
//
//	batch    size, CRC of id, first, count and bytes (4 bytes), bytes
type record struct {
	kind kind
	id   uint64 // of the stream; never reused

	info *reprise.StreamInfo // of create; of configure, Config and Revision

	first, count, earliest uint64
	kept                   int64
	end                    *reprise.End
	producers              []reprise.Producer
	owner                  *reprise.Owner // nil if unchanged

	bytes []byte
	at    int64 // offset in its segment of the CRC of the batch

	// stream is that of id, if known: looking it up again when the record is applied is not necessary then.
	stream *stream

	epoch reprise.Epoch // of renew

	// until is when the mark ends, of remove, and when the stream expires, of configure; zero for no mark or end.
	until time.Time
}

const (
	hasEnd = 1 << iota
	hasProducers
	hasOwner
	unknownFlags // this flag and all above are undefined
)

// encode appends r to a frame that begins with dst, and records the place of the batch in it.
func (r *record) encode(dst []byte) []byte {
	dst = appendUints(dst, uint64(r.kind), r.id)
	switch r.kind {
	case kindCreate:
		return appendInfo(dst, r.info)
	case kindTrim:
		return appendUints(dst, r.earliest, uint64(r.kept))
	case kindRemove:
		return appendTime(dst, r.until)
	case kindConfigure:
		return appendTime(appendConfig(appendUints(dst, r.info.Revision), &r.info.Config), r.until)
	case kindRenew:
		return appendBytes(dst, r.epoch)
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

// place is the place of the batch of r in its segment.
func (r *record) place() batch {
	return batch{first: r.first, count: uint32(r.count), at: uint32(r.at), size: uint32(len(r.bytes))}
}

func (r *record) encodeBatch(dst []byte) []byte {
	dst = appendUints(dst, uint64(len(r.bytes)))
	r.at = int64(len(dst))
	dst = le.AppendUint32(dst, batchSum(r.id, r.first, r.count, r.bytes))
	return append(dst, r.bytes...)
}

// records yields the records of a frame at an offset of its segment. The records share the memory of the frame.
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
	case kindConfigure:
		r.info = &reprise.StreamInfo{Revision: c.uint(), Config: c.config()}
		r.until = c.time()
	case kindRenew:
		r.epoch = reprise.Epoch(c.text())
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

// batch decodes the bytes of a batch and verifies their checksum.
func (c *cutter) batch(r *record) {
	size := c.uint()
	sum := c.take(sumBytes)
	r.bytes = c.take(size)
	if c.bad || r.count == 0 || le.Uint32(sum) != batchSum(r.id, r.first, r.count, r.bytes) {
		c.fail()
	}
}
