package ssefollow

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// ErrCoding is wrapped by the error for an answer in a content coding that cannot be decoded.
var ErrCoding = errors.New("unknown content coding")

// Decode replaces the body of an answer by its decoded form. Some proxies compress although the request asked for
// identity, so gzip and deflate are decoded whether or not they were asked for. The decoded body returns what the
// sender has flushed, without waiting for more. The error wraps ErrCoding and names the coding; the body stays the
// caller's to close.
func Decode(res *http.Response) error {
	coding := strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding")))
	var open func(io.Reader) (io.Reader, error)
	switch coding {
	case "", "identity", "none": // none is no coding, and some put it there to keep others from compressing
		return nil
	case "gzip", "x-gzip":
		open = func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "deflate":
		open = inflate
	default:
		return fmt.Errorf("%w %q: something in front of the server compresses although it was not asked to",
			ErrCoding, coding)
	}
	res.Header.Del("Content-Encoding")
	res.Header.Del("Content-Length")
	res.ContentLength = -1
	res.Body = &codedBody{body: res.Body, open: open}
	return nil
}

// inflate reads the coding deflate: the zlib format (RFC 9110, section 8.4.1.2), or deflate data without its header,
// which some servers send.
func inflate(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	head, err := buffered.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(buffered)
	}
	return flate.NewReader(buffered), nil
}

// codedBody is the body of an answer in a content coding. Its first Read reads the head, which comes with the first
// event.
type codedBody struct {
	body io.ReadCloser
	open func(io.Reader) (io.Reader, error)
	in   io.Reader
}

func (b *codedBody) Read(p []byte) (n int, err error) {
	if b.in == nil {
		if b.in, err = b.open(b.body); err != nil {
			b.in = nil
			return 0, err
		}
	}
	return b.in.Read(p)
}

func (b *codedBody) Close() error { return b.body.Close() }

// IsDamaged reports whether err is the error of a body that is not in its content coding, or was changed in transit.
func IsDamaged(err error) bool {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, zlib.ErrHeader) || errors.Is(err, zlib.ErrChecksum)
}
