//go:build linux

package main

import (
	"errors"
	"os"

	"reprise/internal/testserver"
)

// restored is NATS whose files are restored to an earlier state, as after a power loss.
const restored = "nats-restored"

// files are the files of a server and a copy of them.
type files struct {
	server *testserver.NATSServer
	saved  string
}

// putBack copies the files while the server is paused, resumes it for up to 300 ms, kills it, restores the copy and
// starts it. Events acknowledged in between are lost; losing is called before that.
func (f *files) putBack(s *stage, losing func()) error {
	if err := errors.Join(os.RemoveAll(f.saved), f.server.Pause()); err != nil {
		return err
	}
	err := errors.Join(os.CopyFS(f.saved, os.DirFS(f.server.Dir())), f.server.Resume())
	if err != nil {
		return err
	}
	losing()
	s.wait(300)
	if err := errors.Join(f.server.Kill(), os.RemoveAll(f.server.Dir())); err != nil {
		return err
	}
	if err := os.CopyFS(f.server.Dir(), os.DirFS(f.saved)); err != nil {
		return err
	}
	return f.server.Start()
}
