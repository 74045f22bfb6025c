// Package remote keeps archives that need large client libraries, buckets (s3:) and topics of Kafka (kafka:), out of
// the reprise program. They are served by a program of their own, reprise-archive, and this package is its client.
//
// A [Helper] starts the program, writes the URL of the archive to its stdin as one line, and reads one line of JSON
// from its stdout, a [Hello], which says that the archive is open or why not. Requests are HTTP/2 over the same pipes,
// so that no other process of the same user can make any:
//
//	PUT    /file?name=NAME           the body is the file; an incomplete body stores nothing
//	POST   /open?name=NAME           a handle and the size of the file
//	GET    /read?handle=H&at=N&len=N bytes of an open file
//	DELETE /open?handle=H            close it
//	GET    /list?prefix=P            lines of JSON, of which the last one is {"end":true}
//	POST   /stream                   a stream for a topic: see [WriteStream]
//
// An error is a [Problem] as JSON with the status 500. The helper ends when its stdin is closed, which happens when its
// parent ends. The next call restarts a helper that has died.
package remote
