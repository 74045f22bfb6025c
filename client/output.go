package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/ssefollow"
)

// OutputOptions select a part of a channel.
type OutputOptions struct {
	// Offset is the first byte.
	Offset int64
	// Follow reads until the execution has ended. Otherwise only the bytes are read that
	// exist when the server is asked.
	Follow bool
}

// Output reads the bytes of a channel, "stdout" or "stderr", exactly as the command
// wrote them. Reading continues by itself after a lost connection; Options.GiveUp limits each retry. The
// first Read makes the first request. A read of bytes that are no longer kept fails
// with the code cursor_expired. Close frees everything; cancelling ctx does too.
func (c *Client) Output(ctx context.Context, id, channel string, opts *OutputOptions) io.ReadCloser {
	var o OutputOptions
	if opts != nil {
		o = *opts
	}
	op := "read " + channel + " of execution " + id
	err := checkName(op, id)
	if err == nil && channel != "stdout" && channel != "stderr" {
		err = fmt.Errorf("%s: %w: the channels are stdout and stderr", op, reprise.ErrInvalid)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	return &outputReader{
		c: c, ctx: ctx, cancel: cancel, id: id, channel: channel, opts: o, err: err, end: -1,
		request: request{op: op, method: http.MethodGet, path: executionPath(id, "/"+channel)},
	}
}

// outputReader is not safe for concurrent use, except Close.
type outputReader struct {
	c           *Client
	ctx         context.Context
	cancel      context.CancelCauseFunc
	id, channel string
	opts        OutputOptions // Offset moves on
	request     request
	end         int64         // where the bytes end, known from the first answer on; -1
	body        io.ReadCloser // of the present answer
	err         error         // for good
}

// errClosedReader is the error of a read after Close.
var errClosedReader = errors.New("read after Close")

func (o *outputReader) Read(p []byte) (int, error) {
	if o.err != nil || len(p) == 0 {
		return 0, o.err
	}
	n, atEnd := 0, false
	o.err = o.c.tryAgain(o.ctx, &o.request, func(ctx context.Context) (err error) {
		n, err = o.read(ctx, p)
		// A lost connection is an io.EOF too, but within another error.
		if err == io.EOF { //nolint:errorlint // not within another error
			atEnd, err = true, nil
		}
		return err
	})
	if o.err == nil && atEnd {
		o.err = io.EOF
	}
	if o.err != nil {
		o.drop()
	}
	return n, o.err
}

// read returns some bytes, or io.EOF after the last one. Any other error is a failed attempt.
func (o *outputReader) read(ctx context.Context, p []byte) (int, error) {
	if o.end >= 0 && o.opts.Offset >= o.end {
		return 0, io.EOF
	}
	if o.body == nil {
		if err := o.open(ctx); err != nil {
			return 0, err
		}
	}
	if o.end >= 0 { // there may be more by now
		p = p[:min(int64(len(p)), o.end-o.opts.Offset)]
	}
	n, err := o.body.Read(p)
	o.opts.Offset += int64(n)
	if err != nil {
		o.drop()
	}
	switch {
	case n > 0:
		return n, nil
	case err == nil:
		return 0, nil
	case err != io.EOF: //nolint:errorlint // as bodies give it
		return 0, ssefollow.Broken(ctx, err)
	case o.opts.Follow:
		return 0, o.ended(ctx)
	}
	return 0, io.EOF
}

// open requests the bytes from the offset on.
func (o *outputReader) open(ctx context.Context) error {
	o.request.query = url.Values{"offset": {strconv.FormatInt(o.opts.Offset, 10)}}
	if o.opts.Follow {
		o.request.query.Set("follow", "true")
	}
	o.request.header = http.Header{"Accept": {"*/*"}}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(o.c.opts.Timeout, func() { cancel(errTimeout) })
	res, err := o.c.send(ctx, &o.request)
	timer.Stop()
	if err != nil {
		cancel(nil)
		return err
	}
	err = o.c.refusal(res)
	if err == nil && (res.StatusCode != http.StatusOK || !hasType(res, bytesType)) {
		err = notOurs(res)
	}
	if err != nil {
		cancel(nil)
		res.Body.Close()
		return err
	}
	o.c.met.Store(true)
	if !o.opts.Follow && o.end < 0 && res.ContentLength >= 0 {
		o.end = o.opts.Offset + res.ContentLength
	}
	o.body = &canceledBody{res.Body, cancel}
	return nil
}

// ended verifies that an answer that ended was complete, since a proxy may have ended it.
func (o *outputReader) ended(ctx context.Context) error {
	e, err := o.c.Show(ctx, o.id)
	if err != nil {
		return err
	}
	total := e.Bytes.Stdout
	if o.channel == "stderr" {
		total = e.Bytes.Stderr
	}
	if e.Status == StatusEnded && o.opts.Offset >= total {
		return io.EOF
	}
	return ssefollow.ErrDropped
}

func (o *outputReader) drop() {
	if o.body != nil {
		o.body.Close()
		o.body = nil
	}
}

// Close also ends a concurrent Read.
func (o *outputReader) Close() error {
	o.cancel(errClosedReader)
	return nil
}

// canceledBody frees the context of its request when it is closed.
type canceledBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *canceledBody) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}
