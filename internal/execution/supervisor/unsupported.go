//go:build !linux

package supervisor

import (
	"context"
	"net"
	"os"

	"reprise/internal/spawn"
)

// supported: there can be supervisors here.
const supported = false

// Lock is for Linux alone.
func Lock(string) (*os.File, error) { return nil, errNeedsLinux }

// Listen is for Linux alone.
func Listen(string) (*net.UnixListener, error) { return nil, errNeedsLinux }

func dial(context.Context, string) (net.Conn, error) { return nil, errNeedsLinux }

func startSupervisor(*spawn.Spawner) (*os.Process, net.Conn, error) { return nil, nil, errNeedsLinux }
