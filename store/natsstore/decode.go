package natsstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// decoder decodes the output of encode and similar functions. After an error it returns zeros.
type decoder struct {
	b     []byte
	fault bool
}

// newDecoder verifies the checksum at the end of b, and the version. The version follows the first before bytes and is
// at most newest.
func newDecoder(b []byte, before int, newest byte) (*decoder, error) {
	n := len(b) - 4
	if n <= before || binary.BigEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return nil, fmt.Errorf("%w: a checksum does not hold", ErrDamaged)
	}
	if v := b[before]; v < formatVersion || v > newest {
		return nil, fmt.Errorf("%w: format %d, this program knows %d", errNewer, v, newest)
	}
	return &decoder{b: b[before+1 : n]}, nil
}

// done returns an error unless exactly all bytes were decoded.
func (d *decoder) done() error {
	if d.fault || len(d.b) > 0 {
		return fmt.Errorf("%w: the state of a stream cannot be read", ErrDamaged)
	}
	return nil
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fault, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fault, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.fault, d.b = true, nil
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

// length decodes the length of a list whose items take at least the given number of bytes each.
func (d *decoder) length(least int) int {
	n := d.number()
	if n > uint64(len(d.b)/least) {
		d.fault, d.b = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) text() string { return string(d.take(d.length(1))) }

func (d *decoder) parts() []part {
	n := d.length(2)
	if n == 0 {
		return nil
	}
	parts := make([]part, n)
	for i := range parts {
		parts[i] = part{seq: d.number(), len: int(d.number())}
	}
	return parts
}
