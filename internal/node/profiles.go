package node

import (
	"context"
	"errors"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"time"

	"reprise/internal/datadir"
	"reprise/internal/durable"
)

// openProfiles serves the profiles of net/http/pprof on a socket in the data directory. A profile of the heap has
// secrets in it, and Landlock keeps no command of our user from a socket, so that callers show the secret of a file.
func openProfiles(_ context.Context, n *Node) error {
	secret, err := durable.Secret(filepath.Join(n.dir.Path, datadir.SecretFile))
	if err != nil {
		return err
	}
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
	knows := demand(secret)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if _, _, err := knows(r); err != nil {
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			mux.ServeHTTP(w, r)
		})}
	n.onClose(func() error { return errors.Join(server.Close(), dir.Close()) })
	go func() { _ = server.Serve(listener) }() // which ends when it is closed
	return nil
}
