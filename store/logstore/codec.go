package logstore

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"reprise"
)

// Numbers are uvarints; texts and bytes are preceded by their length.

func appendUints(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func appendBytes[T ~string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// appendTime appends the seconds since 1970, signed, and the nanoseconds.
func appendTime(dst []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(dst, t.Unix()), uint64(t.Nanosecond()))
}

func appendEnd(dst []byte, end *reprise.End) []byte {
	dst = appendBytes(dst, end.Outcome)
	dst = appendTime(appendTime(dst, end.Time), end.Expires)
	return appendBytes(dst, end.Data)
}

func appendProducers(dst []byte, list []reprise.Producer) []byte {
	dst = appendUints(dst, uint64(len(list)))
	for _, p := range list {
		dst = appendUints(appendBytes(dst, p.ID), p.Epoch, p.Seq, p.First, p.Last)
	}
	return dst
}

func appendOwner(dst []byte, o reprise.Owner) []byte {
	return appendUints(appendBytes(dst, o.Name), o.Fence)
}

const (
	infoHasEnd = 1 << iota
	infoHasRevision
)

// appendInfo appends a stream: key, epoch, creation, configuration, owner, earliest, tail, bytes, flags, [end],
// [revision], producers, lineage.
func appendInfo(dst []byte, i *reprise.StreamInfo) []byte {
	dst = appendBytes(appendBytes(dst, i.Key.Tenant), i.Key.Name)
	dst = appendTime(appendBytes(dst, i.Epoch), i.Created)
	dst = appendConfig(dst, &i.Config)
	dst = appendOwner(dst, i.Owner)
	dst = appendUints(dst, i.Earliest, i.Tail, uint64(i.Bytes))
	flags := byte(0)
	if i.End != nil {
		flags |= infoHasEnd
	}
	if i.Revision > 0 {
		flags |= infoHasRevision
	}
	dst = append(dst, flags)
	if i.End != nil {
		dst = appendEnd(dst, i.End)
	}
	if i.Revision > 0 {
		dst = appendUints(dst, i.Revision)
	}
	dst = appendProducers(dst, i.Producers)
	dst = appendUints(dst, uint64(len(i.Lineage)))
	for _, a := range i.Lineage {
		dst = appendUints(appendBytes(dst, a.Epoch), a.Fork)
	}
	return dst
}

// appendConfig appends a configuration: three bounds of the retention, labels, Meta.
func appendConfig(dst []byte, c *reprise.StreamConfig) []byte {
	r := c.Retention
	dst = appendUints(dst, uint64(r.MaxEvents), uint64(r.MaxBytes), uint64(r.MaxAge), uint64(len(c.Labels)))
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		dst = appendBytes(appendBytes(dst, name), c.Labels[name])
	}
	return appendBytes(dst, c.Meta)
}

// cutter decodes values from the front of bytes. After the first value that is incomplete, all values are zero.
type cutter struct {
	b   []byte
	bad bool
}

func (c *cutter) fail() { c.b, c.bad = nil, true }

func (c *cutter) uint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.b = c.b[n:]
	return v
}

// bytes returns a subslice of the bytes that c was made with.
func (c *cutter) bytes() []byte { return c.take(c.uint()) }

func (c *cutter) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

func (c *cutter) text() string { return string(c.bytes()) }

// length decodes the number of items that follow, each of which takes at least one byte.
func (c *cutter) length() int {
	n := c.uint()
	if n > uint64(len(c.b)) {
		c.fail()
		return 0
	}
	return int(n)
}

func (c *cutter) time() time.Time {
	seconds, n := binary.Varint(c.b)
	if n <= 0 {
		c.fail()
		return time.Time{}
	}
	c.b = c.b[n:]
	return time.Unix(seconds, int64(c.uint())).UTC()
}

func (c *cutter) end() *reprise.End {
	return &reprise.End{Outcome: c.text(), Time: c.time(), Expires: c.time(), Data: slices.Clone(c.bytes())}
}

func (c *cutter) producers() []reprise.Producer {
	n := c.length()
	if n == 0 {
		return nil
	}
	list := make([]reprise.Producer, 0, n)
	for range n {
		list = append(list, reprise.Producer{
			ID: c.text(), Epoch: c.uint(), Seq: c.uint(), First: c.uint(), Last: c.uint(),
		})
	}
	return list
}

func (c *cutter) owner() reprise.Owner { return reprise.Owner{Name: c.text(), Fence: c.uint()} }

func (c *cutter) info() *reprise.StreamInfo {
	i := &reprise.StreamInfo{
		Key:   reprise.StreamKey{Tenant: reprise.Tenant(c.text()), Name: c.text()},
		Epoch: reprise.Epoch(c.text()), Created: c.time(),
		Config: c.config(),
	}
	i.Owner = c.owner()
	i.Earliest, i.Tail, i.Bytes = c.uint(), c.uint(), int64(c.uint())
	flags := c.uint()
	if flags&infoHasEnd != 0 {
		i.End = c.end()
	}
	if flags&infoHasRevision != 0 {
		i.Revision = c.uint()
	}
	c.bad = c.bad || flags > infoHasEnd|infoHasRevision
	i.Producers = c.producers()
	for range c.length() {
		i.Lineage = append(i.Lineage, reprise.Ancestor{Epoch: reprise.Epoch(c.text()), Fork: c.uint()})
	}
	return i
}

func (c *cutter) config() reprise.StreamConfig {
	out := reprise.StreamConfig{Retention: reprise.Retention{
		MaxEvents: int64(c.uint()), MaxBytes: int64(c.uint()), MaxAge: time.Duration(c.uint()),
	}}
	if n := c.length(); n > 0 {
		out.Labels = make(map[string]string, n)
		for range n {
			name := c.text()
			out.Labels[name] = c.text()
		}
	}
	out.Meta = slices.Clone(c.bytes())
	return out
}
