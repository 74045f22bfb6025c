package contentcoding

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

// shareSlots bounds what is kept for other readers: as many pieces, of up to 64 KiB and what they compress to, for each
// coding.
const shareSlots = 128

// share keeps what pieces compress to that more than one reader is sent: readers that follow one stream together, or
// that have come back together. It is a table without locks. A piece that has come once leaves its hash alone, so that
// a single replay keeps nothing.
type share struct {
	seed  maphash.Seed
	slots [shareSlots]atomic.Pointer[shared]
}

// shared is a piece. plain is nil for one that was seen once.
type shared struct {
	hash              uint64
	plain, compressed []byte
}

func newShare() *share { return &share{seed: maphash.MakeSeed()} }

// shares are those of the codings.
var shares = map[Coding]*share{Zstd: newShare(), Gzip: newShare()}

// minShared is the size of a piece, in bytes, from which on it is worth looking whether it is there.
const minShared = minDeflated

// append appends the compressed form of p to dst. The plain bytes are compared: a hash that is the same by chance, or
// by intent, gives nobody the bytes of another stream.
func (s *share) append(dst, p []byte, encode encoder) []byte {
	if len(p) < minShared {
		return encode(dst, p)
	}
	hash := maphash.Bytes(s.seed, p)
	slot := &s.slots[hash%shareSlots]
	found := slot.Load()
	if found != nil && found.hash == hash && bytes.Equal(found.plain, p) {
		return append(dst, found.compressed...)
	}
	begin := len(dst)
	dst = encode(dst, p)
	made := &shared{hash: hash}
	if found != nil && found.hash == hash {
		made.plain, made.compressed = bytes.Clone(p), bytes.Clone(dst[begin:])
	}
	slot.Store(made)
	return dst
}
