//go:build !linux

package park

import (
	"errors"
	"net"
)

// Supported reports whether this system can park responses.
const Supported = false

// watch exists on Linux.
type watch struct{}

func newWatch() (*watch, error) { return nil, errors.ErrUnsupported }

func (*watch) add(*Seat) error { return errors.ErrUnsupported }

func (*watch) remove(*Seat) {}

func (*watch) close() error { return nil }

func awaitInput(*net.TCPConn) error { return errors.ErrUnsupported }

func tryWrite(*net.TCPConn, []byte) (int, error) { return 0, errors.ErrUnsupported }
