package node

import (
	"context"
	"errors"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"reprise/internal/datadir"
)

// openProfiles serves the profiles of net/http/pprof on a socket in the data directory, which only the user of the
// server can open: a profile of the heap has secrets in it.
func openProfiles(_ context.Context, n *Node) error {
	dir, err := os.Open(n.dir.Path)
	if err != nil {
		return err
	}
	listener, err := listenIn(dir, datadir.ProfilesFile)
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	n.onClose(func() error { return errors.Join(server.Close(), dir.Close()) })
	go func() { _ = server.Serve(listener) }() // which ends when it is closed
	return nil
}
