//go:build !linux

package supervisor

import (
	"context"
	"errors"
	"net"
	"os"
)

// Lock is for Linux alone.
func Lock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// Listen is for Linux alone.
func Listen(string) (*net.UnixListener, error) { return nil, errors.ErrUnsupported }

func dial(context.Context, string) (net.Conn, error) { return nil, errors.ErrUnsupported }
