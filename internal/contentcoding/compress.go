package contentcoding

import (
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// encoder appends the compressed form of p to dst. The appended bytes can be decoded on their own.
type encoder func(dst, p []byte) []byte

// encoders are the ways to compress a piece.
var encoders = map[Coding]encoder{Zstd: appendFrame, Gzip: appendDeflated}

// frames encodes zstd frames. It has as many encoders as there are processors, however many responses are open. Its
// window is longer than any piece.
var frames = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(2*pieceBytes),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)))
	if err != nil {
		panic(err) // options that are constant
	}
	return e
})

// appendFrame appends a zstd frame.
func appendFrame(dst, p []byte) []byte { return frames().EncodeAll(p, dst) }

// minDeflated is the size in bytes below which a piece is stored uncompressed, since it would gain nothing.
const minDeflated = 512

// appendDeflated appends deflate blocks that end with an empty one at the end of a byte, which is a sync flush (RFC
// 1951, section 3.2.4).
func appendDeflated(dst, p []byte) []byte {
	if len(p) < minDeflated {
		n := uint16(len(p))
		dst = binary.LittleEndian.AppendUint16(append(dst, 0), n)
		dst = binary.LittleEndian.AppendUint16(dst, ^n)
		return append(append(dst, p...), 0, 0, 0, 0xff, 0xff)
	}
	out := appender{dst}
	_ = flate.StatelessDeflate(&out, p, false, nil) // appender does not fail
	return out.b
}

// appender is an io.Writer that appends.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// gzipHeader begins a member: deflate, no name, no time, an unknown system (RFC 1952, section 2.3).
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// trailer holds the checksum and size of the data in a gzip member.
type trailer struct{ sum, size uint32 }

func (t *trailer) add(p []byte) {
	t.sum = crc32.Update(t.sum, crc32.IEEETable, p)
	t.size += uint32(len(p)) // modulo 2^32 by the format
}

// append ends the deflate blocks with an empty final block, and the member with its checksum and size.
func (t *trailer) append(dst []byte) []byte {
	dst = append(dst, 0x01, 0x00, 0x00, 0xff, 0xff)
	dst = binary.LittleEndian.AppendUint32(dst, t.sum)
	return binary.LittleEndian.AppendUint32(dst, t.size)
}

// Compress returns the whole of p in a coding.
func Compress(c Coding, p []byte) []byte {
	switch c {
	case Zstd:
		return appendFrame(nil, p)
	case Gzip:
		var t trailer
		t.add(p)
		return t.append(appendDeflated([]byte(gzipHeader), p))
	}
	return p
}
