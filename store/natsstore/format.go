package natsstore

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"reprise"
)

// header is the name of the message header that carries a state.
const header = "Reprise"

// formatVersion is the version of records, and of states that every version of this program can read. lineageVersion is
// the version of states with a lineage. A program that does not know lineages would lose one, and therefore rejects
// these states. It can share streams that have lost nothing.
const (
	formatVersion  = 1
	lineageVersion = 2
	// configuredVersion is the version of states whose configuration was changed. A program that does not know it
	// would restore the first one.
	configuredVersion = 3
)

// writerID identifies the writer of a message, so that a Store does not wake its watchers for its own writes. Six bytes
// are eight characters of base64.
type writerID [6]byte

const writerChars = 8

// state is everything that is known of a stream after a message. The newest message of a subject is the state of the
// stream. The message may carry a batch, as its body or in parts.
type state struct {
	gone     bool  // the stream was removed
	remember int64 // unix ms until which a removed stream is reported as expired; 0 for no mark

	epoch    reprise.Epoch
	renewed  bool   // the epoch differs from the record's; see renew
	created  int64  // unix ms
	index    uint64 // sequence of the record in the index
	revision uint64 // of the configuration
	config   uint64 // sequence of the record with the changed configuration; 0 if revision is
	earliest uint64
	tail     uint64
	kept     int64
	owner    reprise.Owner
	bulky    bool // parts or data exist or have existed
	end      *reprise.End
	data     []part // of the end, if end.Data is not in the state
	// producers and lineage are immutable.
	producers []reprise.Producer
	lineage   []reprise.Ancestor

	// first and count describe the batch in this message; count is 0 if there is none.
	first uint64
	count int
	sum   uint32 // CRC-32C of the batch
	parts []part // of the batch, if it is not the body

	batches uint64 // number of batches before this message in this stream
	skips   []skip // to earlier batches; see locate
}

// part is a message that holds a piece of something large.
type part struct {
	seq uint64
	len int
}

// skip points to an earlier batch: the sequence of its message and the seq of its first event.
type skip struct{ seq, first uint64 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	flagGone = 1 << iota
	flagOwner
	flagBulky
	flagEnd
	flagProducers
	flagParts
	flagBatch
	flagRenewed
	flagLineage
	flagConfigured
)

// encode is the text of the header:
//
//	base64(writer, version, flags, remember | (epoch, created, index, earliest, tail, kept, [owner], [end],
//	    [producers], [lineage], [revision, config], batches, skips, [batch]), CRC-32C of all before)
//
// Numbers are varints; texts and lists are preceded by their length.
func (s *state) encode(by writerID) string {
	b := make([]byte, 0, 256)
	b = append(b, by[:]...)
	switch {
	case s.revision > 0:
		b = append(b, configuredVersion)
	case len(s.lineage) > 0:
		b = append(b, lineageVersion)
	default:
		b = append(b, formatVersion)
	}
	b = binary.AppendUvarint(b, s.flags())
	if s.gone {
		b = binary.AppendVarint(b, s.remember)
	} else {
		b = s.appendLive(b)
	}
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return base64.RawStdEncoding.EncodeToString(b)
}

func (s *state) flags() (flags uint64) {
	for _, f := range []struct {
		set  bool
		flag uint64
	}{
		{s.gone, flagGone},
		{s.owner != reprise.Owner{}, flagOwner},
		{s.bulky, flagBulky},
		{s.end != nil, flagEnd},
		{len(s.producers) > 0, flagProducers},
		{len(s.parts) > 0, flagParts},
		{s.count > 0, flagBatch},
		{s.renewed, flagRenewed},
		{len(s.lineage) > 0, flagLineage},
		{s.revision > 0, flagConfigured},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	return flags
}

func (s *state) appendLive(b []byte) []byte {
	b = appendText(b, string(s.epoch))
	b = binary.AppendVarint(b, s.created)
	b = binary.AppendUvarint(b, s.index)
	b = binary.AppendUvarint(b, s.earliest)
	b = binary.AppendUvarint(b, s.tail)
	b = binary.AppendVarint(b, s.kept)
	if (s.owner != reprise.Owner{}) {
		b = appendText(b, s.owner.Name)
		b = binary.AppendUvarint(b, s.owner.Fence)
	}
	if s.end != nil {
		b = appendText(b, s.end.Outcome)
		b = binary.AppendVarint(b, s.end.Time.UnixMilli())
		b = binary.AppendVarint(b, s.end.Expires.UnixMilli())
		if b = appendParts(b, s.data); len(s.data) == 0 {
			b = appendText(b, string(s.end.Data))
		}
	}
	if len(s.producers) > 0 {
		b = binary.AppendUvarint(b, uint64(len(s.producers)))
		for _, p := range s.producers {
			b = appendText(b, p.ID)
			for _, n := range [...]uint64{p.Epoch, p.Seq, p.First, p.Last} {
				b = binary.AppendUvarint(b, n)
			}
		}
	}
	if len(s.lineage) > 0 {
		b = binary.AppendUvarint(b, uint64(len(s.lineage)))
		for _, a := range s.lineage {
			b = appendText(b, string(a.Epoch))
			b = binary.AppendUvarint(b, a.Fork)
		}
	}
	if s.revision > 0 {
		b = binary.AppendUvarint(b, s.revision)
		b = binary.AppendUvarint(b, s.config)
	}
	b = binary.AppendUvarint(b, s.batches)
	b = binary.AppendUvarint(b, uint64(len(s.skips)))
	for _, p := range s.skips {
		b = binary.AppendUvarint(b, p.seq)
		b = binary.AppendUvarint(b, p.first)
	}
	if s.count > 0 {
		b = binary.AppendUvarint(b, s.first)
		b = binary.AppendUvarint(b, uint64(s.count))
		b = binary.BigEndian.AppendUint32(b, s.sum)
		if len(s.parts) > 0 {
			b = appendParts(b, s.parts)
		}
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendParts(b []byte, parts []part) []byte {
	b = binary.AppendUvarint(b, uint64(len(parts)))
	for _, p := range parts {
		b = binary.AppendUvarint(b, p.seq)
		b = binary.AppendUvarint(b, uint64(p.len))
	}
	return b
}

// decodeState is the inverse of encode.
func decodeState(text string) (*state, error) {
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: the header of a message: %w", ErrDamaged, err)
	}
	d, err := newDecoder(b, len(writerID{}), configuredVersion)
	if err != nil {
		return nil, err
	}
	flags := d.number()
	s := &state{gone: flags&flagGone != 0, bulky: flags&flagBulky != 0, renewed: flags&flagRenewed != 0}
	if s.gone {
		s.remember = d.signed()
	} else {
		s.decodeLive(d, flags)
	}
	return s, d.done()
}

func (s *state) decodeLive(d *decoder, flags uint64) {
	s.epoch = reprise.Epoch(d.text())
	s.created = d.signed()
	s.index, s.earliest, s.tail = d.number(), d.number(), d.number()
	s.kept = d.signed()
	if flags&flagOwner != 0 {
		s.owner = reprise.Owner{Name: d.text(), Fence: d.number()}
	}
	if flags&flagEnd != 0 {
		s.end = &reprise.End{
			Outcome: d.text(),
			Time:    time.UnixMilli(d.signed()).UTC(),
			Expires: time.UnixMilli(d.signed()).UTC(),
		}
		if s.data = d.parts(); len(s.data) == 0 {
			if data := d.text(); data != "" {
				s.end.Data = []byte(data)
			}
		}
	}
	if flags&flagProducers != 0 {
		s.producers = make([]reprise.Producer, d.length(5))
		for i := range s.producers {
			s.producers[i] = reprise.Producer{
				ID: d.text(), Epoch: d.number(), Seq: d.number(), First: d.number(), Last: d.number(),
			}
		}
	}
	if flags&flagLineage != 0 {
		s.lineage = make([]reprise.Ancestor, d.length(2))
		for i := range s.lineage {
			s.lineage[i] = reprise.Ancestor{Epoch: reprise.Epoch(d.text()), Fork: d.number()}
		}
	}
	if flags&flagConfigured != 0 {
		s.revision, s.config = d.number(), d.number()
	}
	s.batches = d.number()
	s.skips = make([]skip, d.length(2))
	for i := range s.skips {
		s.skips[i] = skip{seq: d.number(), first: d.number()}
	}
	if flags&flagBatch != 0 {
		s.first, s.count = d.number(), int(d.number())
		if sum := d.take(4); len(sum) == 4 {
			s.sum = binary.BigEndian.Uint32(sum)
		}
		if flags&flagParts != 0 {
			s.parts = d.parts()
		}
	}
}

// record returns the sequence of the record in the index that has the configuration.
func (s *state) record() uint64 {
	if s.config > 0 {
		return s.config
	}
	return s.index
}

// info returns the state in the form of the reprise.Store interface.
func (s *state) info(key reprise.StreamKey, config reprise.StreamConfig) reprise.StreamInfo {
	return reprise.StreamInfo{
		Key: key, Epoch: s.epoch, Config: config, Revision: s.revision, Created: time.UnixMilli(s.created).UTC(),
		Owner: s.owner, Earliest: s.earliest, Tail: s.tail, Bytes: s.kept, End: s.end, Producers: s.producers,
		Lineage: s.lineage,
	}
}

// expired reports whether the stream was removed and its mark is still valid.
func (s *state) expired(now time.Time) bool { return s.remember > now.UnixMilli() }
