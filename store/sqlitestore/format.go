package sqlitestore

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"reprise"
)

// A blob written by this package is
//
//	+---------+------------------+
//	| content | CRC-32C, 4 bytes |
//	|         | little endian    |
//	+---------+------------------+
//
// Its numbers are uvarints; texts and bytes are preceded by their length.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const crcBytes = 4

// errDamaged means that data in the file differs from what was written.
var errDamaged = errors.New("damaged")

func seal(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func unseal(b []byte) (content []byte, err error) {
	n := len(b) - crcBytes
	if n < 0 || binary.LittleEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return nil, errDamaged
	}
	return b[:n:n], nil
}

// entry is the part of a commit that concerns one stream. A row of the journal is a
// sequence of entries:
//
//	+--------+-------+-------+----------+------+-------+----------+----------+-----------+----------+
//	| stream | first | count | earliest | kept | flags | bytes    | end      | producers | owner    |
//	|        |       |       |          |      |       | if bit 0 | if bit 1 | if bit 2  | if bit 3 |
//	+--------+-------+-------+----------+------+-------+----------+----------+-----------+----------+
//
// The bytes of a large batch are not in the journal but in a row of the table batches, which is
// written in the same transaction. The owner is present if it takes over the stream with this batch.
// Version 1 of the file has no owners.
type entry struct {
	stream    int64
	first     uint64
	count     int
	earliest  uint64
	kept      int64
	bytes     []byte // nil if they are in batches
	end       *reprise.End
	producers []reprise.Producer
	owner     *reprise.Owner // nil if unchanged
}

const (
	hasBytes = 1 << iota
	hasEnd
	hasProducers
	hasOwner
	unknown // this flag and all above are undefined
)

func appendEntry(dst []byte, e *entry) []byte {
	var flags uint64
	if e.bytes != nil {
		flags |= hasBytes
	}
	if e.end != nil {
		flags |= hasEnd
	}
	if len(e.producers) > 0 {
		flags |= hasProducers
	}
	if e.owner != nil {
		flags |= hasOwner
	}
	for _, n := range [...]uint64{uint64(e.stream), e.first, uint64(e.count), e.earliest, uint64(e.kept), flags} {
		dst = binary.AppendUvarint(dst, n)
	}
	if e.bytes != nil {
		dst = appendBytes(dst, e.bytes)
	}
	if e.end != nil {
		dst = appendEnd(dst, e.end)
	}
	if len(e.producers) > 0 {
		dst = appendProducers(dst, e.producers)
	}
	if e.owner != nil {
		dst = appendBytes(dst, e.owner.Name)
		dst = binary.AppendUvarint(dst, e.owner.Fence)
	}
	return dst
}

// nanos returns t in nanoseconds since 1970, or the nearest representable value: a retention may reach beyond the year
// 2262, which time.UnixNano would turn into the past.
func nanos(t time.Time) int64 {
	const most = math.MaxInt64 / int64(time.Second)
	switch s := t.Unix(); {
	case s >= most:
		return math.MaxInt64
	case s <= -most:
		return math.MinInt64
	}
	return t.UnixNano()
}

func appendBytes[T ~string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// appendEnd appends outcome, time, expiry (ns since 1970, signed varints) and data.
func appendEnd(dst []byte, end *reprise.End) []byte {
	dst = appendBytes(dst, end.Outcome)
	dst = binary.AppendVarint(dst, nanos(end.Time))
	dst = binary.AppendVarint(dst, nanos(end.Expires))
	return appendBytes(dst, end.Data)
}

// appendProducers appends their number, and id, epoch, seq, first and last of each.
func appendProducers(dst []byte, list []reprise.Producer) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, p := range list {
		dst = appendBytes(dst, p.ID)
		for _, n := range [...]uint64{p.Epoch, p.Seq, p.First, p.Last} {
			dst = binary.AppendUvarint(dst, n)
		}
	}
	return dst
}

// appendLineage appends their number, and epoch and fork of each ancestor.
func appendLineage(dst []byte, list []reprise.Ancestor) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, a := range list {
		dst = appendBytes(dst, a.Epoch)
		dst = binary.AppendUvarint(dst, a.Fork)
	}
	return dst
}

// cutter decodes values from the front of bytes. After the first value that is incomplete, all values are zero.
type cutter struct {
	b   []byte
	bad bool
}

func (c *cutter) uint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.b, c.bad = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cutter) time() time.Time {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.b, c.bad = nil, true
		return time.Time{}
	}
	c.b = c.b[n:]
	return time.Unix(0, v).UTC()
}

func (c *cutter) bytes() []byte {
	n := c.uint()
	if n > uint64(len(c.b)) {
		c.b, c.bad = nil, true
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

func (c *cutter) end() *reprise.End {
	return &reprise.End{Outcome: string(c.bytes()), Time: c.time(), Expires: c.time(), Data: c.bytes()}
}

func (c *cutter) producers() []reprise.Producer {
	n := c.uint()
	if n > uint64(len(c.b)) {
		c.b, c.bad = nil, true
		return nil
	}
	list := make([]reprise.Producer, 0, n)
	for range n {
		list = append(list, reprise.Producer{
			ID: string(c.bytes()), Epoch: c.uint(), Seq: c.uint(), First: c.uint(), Last: c.uint(),
		})
	}
	return list
}

func (c *cutter) lineage() []reprise.Ancestor {
	n := c.uint()
	if n > uint64(len(c.b)) {
		c.b, c.bad = nil, true
		return nil
	}
	list := make([]reprise.Ancestor, 0, n)
	for range n {
		list = append(list, reprise.Ancestor{Epoch: reprise.Epoch(c.bytes()), Fork: c.uint()})
	}
	return list
}

func (c *cutter) entry() entry {
	e := entry{
		stream: int64(c.uint()), first: c.uint(), count: int(c.uint()),
		earliest: c.uint(), kept: int64(c.uint()),
	}
	flags := c.uint()
	if flags&hasBytes != 0 {
		e.bytes = c.bytes()
	}
	if flags&hasEnd != 0 {
		e.end = c.end()
	}
	if flags&hasProducers != 0 {
		e.producers = c.producers()
	}
	if flags&hasOwner != 0 {
		e.owner = &reprise.Owner{Name: string(c.bytes()), Fence: c.uint()}
	}
	c.bad = c.bad || flags >= unknown
	return e
}

// appendRow appends a row of the table batches. It holds batches of one stream, each as its number of events and its
// bytes. The first event of the first batch is the row's first event.
func appendRow(dst []byte, batches []reprise.Batch) []byte {
	for _, b := range batches {
		dst = binary.AppendUvarint(dst, uint64(b.Count))
		dst = appendBytes(dst, b.Bytes)
	}
	return dst
}

// rowBatches is the inverse of appendRow.
func rowBatches(first uint64, content []byte) ([]reprise.Batch, error) {
	var batches []reprise.Batch
	for c := (cutter{b: content}); len(c.b) > 0; {
		b := reprise.Batch{First: first, Count: int(c.uint()), Bytes: c.bytes()}
		if c.bad || b.Count < 1 {
			return nil, errDamaged
		}
		batches = append(batches, b)
		first += uint64(b.Count)
	}
	return batches, nil
}

// config is the form of a StreamConfig in its row.
type config struct {
	MaxEvents int64             `json:"max_events,omitempty"`
	MaxBytes  int64             `json:"max_bytes,omitempty"`
	MaxAge    time.Duration     `json:"max_age_ns,omitempty"`
	Labels    map[string][]byte `json:"labels,omitempty"` // bytes, because they need not be UTF-8
	Meta      []byte            `json:"meta,omitempty"`
	Revision  uint64            `json:"revision,omitempty"`
}

// marshalConfig returns the configuration of a stream and its revision.
func marshalConfig(info *reprise.StreamInfo) ([]byte, error) {
	c := &info.Config
	labels := make(map[string][]byte, len(c.Labels))
	for k, v := range c.Labels {
		labels[fmt.Sprintf("%x", k)] = []byte(v)
	}
	return json.Marshal(config{
		c.Retention.MaxEvents, c.Retention.MaxBytes, c.Retention.MaxAge, labels, c.Meta,
		info.Revision,
	})
}

// configOverhead returns the part of StreamInfo.Overhead that comes from a configuration.
func configOverhead(text []byte) (n int64, err error) {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return 0, fmt.Errorf("configuration of a stream: %w", errDamaged)
	}
	for name, value := range c.Labels {
		n += int64(len(name)/2 + len(value))
	}
	return n + int64(len(c.Meta)), nil
}

// unmarshalConfig is the inverse of marshalConfig.
func unmarshalConfig(text []byte) (_ reprise.StreamConfig, revision uint64, err error) {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return reprise.StreamConfig{}, 0, fmt.Errorf("configuration of a stream: %w", errDamaged)
	}
	out := reprise.StreamConfig{
		Retention: reprise.Retention{MaxEvents: c.MaxEvents, MaxBytes: c.MaxBytes, MaxAge: c.MaxAge},
		Meta:      c.Meta,
	}
	if len(c.Labels) > 0 {
		out.Labels = make(map[string]string, len(c.Labels))
	}
	for k, v := range c.Labels {
		key, err := hex.DecodeString(k)
		if err != nil {
			return out, 0, errDamaged
		}
		out.Labels[string(key)] = string(v)
	}
	return out, c.Revision, nil
}
