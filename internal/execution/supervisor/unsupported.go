//go:build !linux

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"reprise/internal/spawn"
)

// Supervisors are for Linux alone.

var errNeedsLinux = fmt.Errorf("only Linux supports it: %w", errors.ErrUnsupported)

// Lock is for Linux alone.
func Lock(string) (*os.File, error) { return nil, errNeedsLinux }

// Listen is for Linux alone.
func Listen(string) (*net.UnixListener, error) { return nil, errNeedsLinux }

func dial(context.Context, string) (net.Conn, error) { return nil, errNeedsLinux }

// Pool is for Linux alone. There is none elsewhere, so that its methods are not called.
type Pool struct{}

// OpenPool returns an error that wraps errors.ErrUnsupported.
func OpenPool(string, *spawn.Spawner, Options) (*Pool, error) { return nil, errNeedsLinux }

// Dir returns "".
func (*Pool) Dir() string { return "" }

// Remote returns nil.
func (*Pool) Remote(string) *Remote { return nil }

// Counts returns zeros.
func (*Pool) Counts() (busy, idle int) { return 0, 0 }

// MakeDir returns an error.
func (*Pool) MakeDir(string) (*Worker, error) { return nil, errNeedsLinux }

// PutBack does nothing.
func (*Pool) PutBack(*Worker) {}

// Give returns an error.
func (*Pool) Give(*Order, *Worker) (*Worker, *Link, error) { return nil, nil, errNeedsLinux }

// Warm does nothing.
func (*Pool) Warm() {}

// Close does nothing.
func (*Pool) Close() {}

// Worker is for Linux alone.
type Worker struct{}

// Leave does nothing.
func (*Worker) Leave() {}
