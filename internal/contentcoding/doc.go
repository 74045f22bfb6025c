// Package contentcoding compresses responses that follow a stream, for clients that ask for it by Accept-Encoding (RFC
// 9110, section 12.5.3): gzip and zstd.
//
//	if coding := contentcoding.Pick(r.Header); coding != contentcoding.Identity {
//		compressed := contentcoding.NewWriter(w, coding)
//		defer compressed.Close()
//		w = compressed
//	}
//
// What is flushed leaves at once, and the client can decode all of it: a live event is never held back for one that
// comes later. What is written between two flushes, up to 64 KiB, is compressed by itself, with no reference to what
// came before:
//
//   - zstd: each such piece is a frame. A zstd stream is a run of frames (RFC 8878, section 3).
//   - gzip: the response is one member (RFC 1952). Each piece is a run of deflate blocks that ends at a byte, as a sync
//     flush ends it. Clients exist that stop after the first of several members.
//
// That costs a part of the ratio, and has two uses. A response has no window and no tables: one that waits for events
// holds a few words. And a piece that goes to many readers is compressed once for all of them.
package contentcoding
