package client

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
)

// Compression says whether the client asks for events in gzip. The server compresses them without delaying any.
type Compression uint8

const (
	// CompressRemote asks servers that are not on a loopback address, where compression takes longer than it saves.
	CompressRemote Compression = iota
	// CompressAlways also asks servers on a loopback address, for example at the end of a tunnel.
	CompressAlways
	// CompressNever does not ask for compression.
	CompressNever
)

// asksFor reports whether the client asks a server at host for events in gzip.
func (c Compression) asksFor(host string) bool {
	return c == CompressAlways || c == CompressRemote && !isLoopback(host)
}

// wantEvents lets events come in gzip, if that was chosen.
func (c *Client) wantEvents(h http.Header) {
	if c.compress {
		h.Set("Accept-Encoding", "gzip")
	}
}

// decode replaces a gzip body of an answer by its decompressed form.
func decode(res *http.Response) {
	if strings.EqualFold(res.Header.Get("Content-Encoding"), "gzip") {
		res.Header.Del("Content-Encoding")
		res.Header.Del("Content-Length")
		res.ContentLength = -1
		res.Body = &gzipBody{body: res.Body}
	}
}

// gzipBody is the body of an answer in gzip. Its first Read reads the head, which comes with the first event.
type gzipBody struct {
	body io.ReadCloser
	in   *gzip.Reader
}

func (b *gzipBody) Read(p []byte) (n int, err error) {
	if b.in == nil {
		if b.in, err = gzip.NewReader(b.body); err != nil {
			b.in = nil
			return 0, err
		}
	}
	return b.in.Read(p)
}

func (b *gzipBody) Close() error { return b.body.Close() }

// isDamaged reports whether err is the error of a body that is not gzip or was changed in transit.
func isDamaged(err error) bool {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum)
}
