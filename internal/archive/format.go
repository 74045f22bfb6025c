package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"

	"reprise"
)

// An archived stream is one file, version 1:
//
//	+----------+--------+---------+     +---------+-------+--------+
//	| magic, 8 | header | block 1 | ... | block n | index | footer |
//	+----------+--------+---------+     +---------+-------+--------+
//
// Numbers are little endian, checksums are CRC-32C of all that comes before them in the same box.
//
//	header   | length, 4 | JSON: see header in info.go       | CRC, 4 |
//	block    | codec, 1 | raw length, 4 | length, 4 | bytes | CRC, 4 |
//	index    | of each block: seq of its first event, 8; place in the file, 8 | CRC, 4 |
//	footer   | place of the index, 8 | blocks, 8 | SHA-256 of the boxes before, 32 | CRC, 4 | end, 8 |
//
// The bytes of a block, behind zstd where the codec is 1, are batches one behind the other:
// number of events and length as uvarints, and the bytes as they were appended.
// The batches of the whole file follow each other without a hole up to the tail.
const (
	magic      = "reprise\x01"
	endMagic   = "\x01esirper"
	crcBytes   = 4
	blockHead  = 1 + 4 + 4
	indexEntry = 8 + 8
	footerSize = 8 + 8 + 32 + crcBytes + len(endMagic)
)

const (
	codecNone = 0
	codecZstd = 1
)

const (
	// blockBytes is the size from which on a block is full: what one read costs at least.
	blockBytes = 256 << 10
	// maxBlockBytes limits the stated size of a block, so that a damaged or hostile file cannot request more memory. A
	// larger batch cannot be archived.
	maxBlockBytes = 256 << 20
	// maxHeaderBytes bounds the header: meta, producers and the data of the end.
	maxHeaderBytes = 64 << 20
)

// ErrDamaged is the error of a file that is damaged or not an archive. It does not wrap a temporary error.
var ErrDamaged = errors.New("archive damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal appends the checksum of b from start on.
func seal(b []byte, start int) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// unseal checks and cuts off the checksum at the end of b. what names the part.
func unseal(b []byte, what string) ([]byte, error) {
	n := len(b) - crcBytes
	if n < 0 || binary.LittleEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return nil, fmt.Errorf("%w: the %s has another checksum", ErrDamaged, what)
	}
	return b[:n:n], nil
}

// appendBatch appends a batch to the raw bytes of a block.
func appendBatch(dst []byte, b *reprise.Batch) []byte {
	dst = binary.AppendUvarint(dst, uint64(b.Count))
	dst = binary.AppendUvarint(dst, uint64(len(b.Bytes)))
	return append(dst, b.Bytes...)
}

// appendBlock appends a block that contains raw, compressed if that makes it smaller.
func appendBlock(dst, raw []byte, encoder *zstd.Encoder) []byte {
	start := len(dst)
	dst = append(dst, codecZstd)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(raw)))
	dst = append(dst, 0, 0, 0, 0)
	body := len(dst)
	dst = encoder.EncodeAll(raw, dst)
	if len(dst)-body >= len(raw) {
		dst = append(dst[:body], raw...)
		dst[start] = codecNone
	}
	binary.LittleEndian.PutUint32(dst[body-4:], uint32(len(dst)-body))
	return seal(dst, start)
}

// openBlock returns the raw bytes of a block, which is all of b.
func openBlock(b []byte, decoder *zstd.Decoder) ([]byte, error) {
	b, err := unseal(b, "block")
	if err != nil {
		return nil, err
	}
	if len(b) < blockHead {
		return nil, fmt.Errorf("%w: a block of %d bytes", ErrDamaged, len(b))
	}
	raw, length, body := binary.LittleEndian.Uint32(b[1:]), binary.LittleEndian.Uint32(b[5:]), b[blockHead:]
	if raw > maxBlockBytes || uint64(length) != uint64(len(body)) {
		return nil, fmt.Errorf("%w: a block of %d bytes that says %d, and %d within", ErrDamaged, len(body), length,
			raw)
	}
	switch b[0] {
	case codecNone:
	case codecZstd:
		if body, err = decoder.DecodeAll(body, nil); err != nil {
			return nil, fmt.Errorf("%w: %v", ErrDamaged, err)
		}
	default:
		return nil, fmt.Errorf("%w: a block with the codec %d", ErrDamaged, b[0])
	}
	if len(body) != int(raw) {
		return nil, fmt.Errorf("%w: a block holds %d bytes in place of %d", ErrDamaged, len(body), raw)
	}
	return body, nil
}

// cutBatch takes a batch that begins with the event first off the front of raw.
func cutBatch(raw []byte, first uint64) (b reprise.Batch, rest []byte, err error) {
	count, n := binary.Uvarint(raw)
	if n > 0 && count >= 1 && count <= 1<<31 && first+count > first {
		size, m := binary.Uvarint(raw[n:])
		if rest := raw[n+max(m, 0):]; m > 0 && size <= uint64(len(rest)) {
			return reprise.Batch{First: first, Count: int(count), Bytes: rest[:size:size]}, rest[size:], nil
		}
	}
	return b, nil, fmt.Errorf("%w: a batch at event %d", ErrDamaged, first)
}

// newEncoder makes an encoder that one file at a time may use.
func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
}

// newDecoder makes a decoder that any number of reads may share.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlockBytes))
}
