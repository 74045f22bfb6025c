package contentcoding

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

// shareSlots is the number of pieces kept for other readers in each coding, each up to 64 KiB and its compressed form.
const shareSlots = 128

// share caches the compressed form of pieces that are sent to more than one reader: to readers that follow one stream
// together, or that have reconnected together. It is a table without locks. The first use of a piece stores only its
// hash, so a single replay keeps nothing.
type share struct {
	seed  maphash.Seed
	slots [shareSlots]atomic.Pointer[shared]
}

// shared is a cached piece. plain is nil for a piece that was seen once.
type shared struct {
	hash              uint64
	plain, compressed []byte
}

func newShare() *share { return &share{seed: maphash.MakeSeed()} }

// shares holds the cache of each coding.
var shares = map[Coding]*share{Zstd: newShare(), Gzip: newShare()}

// minShared is the size in bytes below which the cache is not used.
const minShared = minDeflated

// append appends the compressed form of p to dst. The plain bytes are compared, so a hash collision, even a deliberate
// one, never returns the bytes of another stream.
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
