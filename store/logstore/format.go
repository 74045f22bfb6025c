package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Fixed-size numbers are little endian, checksums are CRC-32C.
var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

const (
	// magic marks a segment; the last byte is the version of all formats.
	magic       = "reprlog\x01"
	headerBytes = 512
	frameBytes  = 24
	sumBytes    = 4
)

// header is the first sector of a segment. It is durable before anything is written after it.
//
//	0       8        16     24      32     40    48     508
//	+-------+--------+------+-------+------+-----+------+-----+
//	| magic | number | salt | first | prev | end | zero | CRC |
//	+-------+--------+------+-------+------+-----+------+-----+
//
// It fixes where the previous segment ends: data after that was never acknowledged.
type header struct {
	number uint64 // from 1, also the file's name
	salt   uint64 // random, so that other data cannot look like a frame of the segment
	first  uint64 // number of the first commit
	prev   uint64 // number of the previous segment, 0 if there is none
	end    uint64 // where the previous segment ends
}

func (h *header) encode() []byte {
	b := make([]byte, 0, headerBytes)
	b = append(b, magic...)
	for _, n := range [...]uint64{h.number, h.salt, h.first, h.prev, h.end} {
		b = le.AppendUint64(b, n)
	}
	b = b[:headerBytes-sumBytes]
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseHeader is the inverse of encode. The error wraps ErrDamaged or ErrNewer.
func parseHeader(b []byte) (h header, err error) {
	content := b[:headerBytes-sumBytes]
	if le.Uint32(b[len(content):]) != crc32.Checksum(content, castagnoli) {
		return h, damaged("checksum of a segment's header")
	}
	if string(b[:8]) != magic {
		return h, fmt.Errorf("%w: a segment of format %q", ErrNewer, b[:8])
	}
	for i, n := range [...]*uint64{&h.number, &h.salt, &h.first, &h.prev, &h.end} {
		*n = le.Uint64(b[8+8*i:])
	}
	return h, nil
}

// A frame is one commit. The CRC covers everything after it.
//
//	0     4        8        16     24
//	+-----+--------+--------+------+---------+
//	| CRC | length | commit | salt | records |
//	+-----+--------+--------+------+---------+
//
// sealFrame fills in the head of a frame that begins with frameBytes of room.
func sealFrame(b []byte, commit, salt uint64) {
	le.PutUint32(b[4:], uint32(len(b)-frameBytes))
	le.PutUint64(b[8:], commit)
	le.PutUint64(b[16:], salt)
	le.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
}

// readAll reads len(p) bytes at an offset, all of which were written.
func readAll(f io.ReaderAt, p []byte, at int64) error {
	_, err := f.ReadAt(p, at)
	if errors.Is(err, io.EOF) {
		err = damaged("the file ends before %d", at+int64(len(p)))
	}
	return err
}

// readFrame reads the frame at an offset of a file that ends at limit. ok is false if there is no complete frame.
// readFrame uses buf if it is large enough.
func readFrame(f io.ReaderAt, at, limit int64, salt uint64, buf []byte) (
	frame []byte, commit uint64, ok bool, err error,
) {
	var head [frameBytes]byte
	if at+frameBytes > limit {
		return buf, 0, false, nil
	}
	if err := readAll(f, head[:], at); err != nil {
		return buf, 0, false, err
	}
	size := frameBytes + int64(le.Uint32(head[4:]))
	if le.Uint64(head[16:]) != salt || at+size > limit {
		return buf, 0, false, nil
	}
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	frame = buf[:size]
	if err := readAll(f, frame, at); err != nil {
		return buf, 0, false, err
	}
	if le.Uint32(frame) != crc32.Checksum(frame[4:], castagnoli) {
		return buf, 0, false, nil
	}
	return frame, le.Uint64(frame[8:]), true, nil
}

// batchSum returns the checksum of a batch. It covers the stream and the place of the batch, so that no batch can be
// mistaken for another.
func batchSum(id, first, count uint64, bytes []byte) uint32 {
	var head [24]byte
	le.PutUint64(head[:], id)
	le.PutUint64(head[8:], first)
	le.PutUint64(head[16:], count)
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, bytes)
}
