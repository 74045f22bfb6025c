// Package contentcoding compresses responses that follow a stream, for clients that ask for it by Accept-Encoding (RFC
// 9110, section 12.5.3): gzip and zstd.
//
//	if coding := contentcoding.Pick(r.Header); coding != contentcoding.Identity {
//		compressed := contentcoding.NewWriter(w, coding)
//		defer compressed.Close()
//		w = compressed
//	}
//
// Flushed bytes are sent at once, and the client can decode all of them: a live event is never delayed for a
// later one. The bytes between two flushes, up to 64 KiB, are compressed independently, without references to earlier
// bytes:
//
//   - zstd: each such piece is a frame. A zstd stream is a sequence of frames (RFC 8878, section 3).
//   - gzip: the response is one member (RFC 1952). Each piece is a sequence of deflate blocks that ends at a byte
//     boundary, like a sync flush. Some clients stop after the first of several members.
//
// Independent pieces compress less well, and have two advantages. A response has no window and no tables, so one that
// waits for events holds a few words. A piece for many readers is compressed once for all of them.
package contentcoding
