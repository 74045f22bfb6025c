package bench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
)

// countLines is the limit of publishing: it reads bodies, counts their lines, and keeps nothing.
func countLines(context.Context, []string) (*server, error) {
	var lines atomic.Int64
	addr, err := serveHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		lines.Add(int64(bytes.Count(body, []byte{'\n'})))
		_, _ = w.Write([]byte("{}"))
	}))
	return &server{addr: addr}, err
}
