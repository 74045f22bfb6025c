package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"
)

// Conn carries JSON values, one a line. Send and Receive are each for one goroutine at a time.
type Conn struct {
	conn  net.Conn
	lines *bufio.Reader
	// Version is the version of the protocol that both sides use.
	Version int
}

// maxLine is the longest line that is taken.
const maxLine = 64 << 20

// NewConn returns a Conn over a connection.
func NewConn(c net.Conn) *Conn { return &Conn{conn: c, lines: bufio.NewReader(c), Version: Version} }

// Send sends a value.
func (c *Conn) Send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = c.conn.Write(append(line, '\n'))
	return err
}

// Receive waits for a value. The error is io.EOF at the end of the connection.
func (c *Conn) Receive(v any) error {
	var line []byte
	for {
		part, err := c.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return json.Unmarshal(line, v)
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		case len(line) > maxLine:
			return errors.New("supervisor: a line is too long")
		}
	}
}

// Close closes the connection, and ends what waits for it.
func (c *Conn) Close() error { return c.conn.Close() }

// hello is the first line of both sides.
type hello struct {
	Version int    `json:"version,omitempty"`
	Secret  string `json:"secret,omitempty"`
	Error   string `json:"error,omitempty"`
	// Run is the name of the directory that the server has connected through, so that a call which comes late does not
	// reach the next run of the same supervisor. Older servers do not send it.
	Run string `json:"run,omitempty"`
}

// helloPatience limits the time for the hello of the other side.
const helloPatience = 5 * time.Second

// ErrRefused is returned if the supervisor does not accept us as its server.
var ErrRefused = errors.New("the supervisor refuses")

// Dial connects to the supervisor of the directory. The error is ErrRefused for a wrong secret, a *VersionError for a
// newer supervisor, or the connection's.
func Dial(ctx context.Context, dir, secret string) (*Conn, error) {
	raw, err := dial(ctx, dir)
	if err != nil {
		return nil, err
	}
	c := NewConn(raw)
	_ = raw.SetDeadline(time.Now().Add(helloPatience))
	// The kernel connects also to a supervisor that accepts nothing any more, so the hello may never come.
	connected := context.AfterFunc(ctx, func() { _ = raw.Close() })
	var answer hello
	err = c.Send(hello{Version: Version, Secret: secret, Run: filepath.Base(dir)})
	if err == nil {
		err = c.Receive(&answer)
	}
	switch {
	case err != nil:
	case answer.Error != "":
		err = fmt.Errorf("%w: %s", ErrRefused, answer.Error)
	case answer.Version > Version:
		err = &VersionError{Version: answer.Version}
	}
	if !connected() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	c.Version = answer.Version
	_ = raw.SetDeadline(time.Time{})
	return c, nil
}

// Accept verifies that the other side of a connection knows the secret and means the run in dir. Otherwise it closes
// the connection.
func Accept(raw net.Conn, dir, secret string) (*Conn, error) {
	c := NewConn(raw)
	_ = raw.SetDeadline(time.Now().Add(helloPatience))
	c.lines = bufio.NewReader(io.LimitReader(raw, 4<<10))
	var first hello
	err := c.Receive(&first)
	if err == nil && subtle.ConstantTimeCompare([]byte(first.Secret), []byte(secret)) != 1 {
		_ = c.Send(hello{Error: "the secret is wrong"})
		err = ErrRefused
	}
	if err == nil && first.Run != "" && first.Run != filepath.Base(dir) {
		_ = c.Send(hello{Error: "the run is over"})
		err = ErrRefused
	}
	if err == nil {
		c.Version = min(max(first.Version, 1), Version)
		err = c.Send(hello{Version: c.Version})
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	_ = raw.SetDeadline(time.Time{})
	// Bytes behind the first line stay readable.
	rest, _ := c.lines.Peek(c.lines.Buffered())
	c.lines = bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(rest)), raw))
	return c, nil
}
