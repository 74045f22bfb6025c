package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"reprise/internal/problem"
	"reprise/internal/transfer"
	"reprise/internal/upkeep"
	"reprise/internal/web"
)

// storeStats answers with the statistics of the store.
func (s *Server) storeStats(x *web.Exchange) error {
	advise, err := x.Query.Flag("advise")
	if err != nil {
		return err
	}
	stats, err := upkeep.Measure(x.R.Context(), s.log, s.opts.Store)
	if err == nil && advise {
		stats.Advice, err = upkeep.Advise(x.R.Context(), s.log, stats.Tenants, time.Now())
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, stats)
}

// sweptBody is the result of a sweep.
type sweptBody struct {
	Streams int64 `json:"streams"`
	Events  int64 `json:"events"`
	Bytes   int64 `json:"bytes"`
	// Idle is the number of streams that were ended because they were idle.
	Idle int64 `json:"idle"`
}

// sweepStore sweeps now.
func (s *Server) sweepStore(x *web.Exchange) error {
	swept, err := s.log.Sweep(x.R.Context())
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, sweptBody(swept))
}

// checkStore reads everything and answers with a line for each fault, blank lines as heartbeats, and one last line:
// {"checked":...}, or {"failed":...} if the check could not be finished.
func (s *Server) checkStore(x *web.Exchange) error {
	opaque, err := x.Query.Flag("opaque")
	if err != nil {
		return err
	}
	x.W.Header().Set("Content-Type", web.NDJSON)
	x.W.WriteHeader(http.StatusOK)
	out := &lineWriter{server: s, w: x.W}
	defer out.beat(s.opts.Heartbeat)()
	checked, err := transfer.Check(x.R.Context(), s.opts.Store, &transfer.CheckOptions{Opaque: opaque}, out.wrong)
	if err != nil {
		out.write(map[string]problem.Problem{"failed": problem.From(err)})
		return nil
	}
	out.write(map[string]transfer.Checked{"checked": checked})
	return nil
}

// lineWriter writes lines of JSON as they come.
type lineWriter struct {
	server *Server

	mu sync.Mutex
	w  http.ResponseWriter
}

// wrong writes a fault that a check has found.
func (l *lineWriter) wrong(p transfer.Problem) {
	l.write(struct {
		Wrong  string `json:"wrong"`
		Tenant string `json:"tenant,omitempty"`
		Stream string `json:"stream,omitempty"`
	}{p.String(), string(p.Key.Tenant), p.Key.Name})
}

// write writes v as a line; nil is a blank one. A client that has gone cancels its request.
func (l *lineWriter) write(v any) {
	var line []byte
	if v != nil {
		line, _ = json.Marshal(v) // strings and numbers
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server.web.AllowWrite(l.w)
	_, _ = l.w.Write(append(line, '\n'))
	_ = http.NewResponseController(l.w).Flush()
}

// beat writes a blank line every so often, until stop is called, which waits for the last one.
func (l *lineWriter) beat(every time.Duration) (stop func()) {
	var beating sync.WaitGroup
	done := make(chan struct{})
	beating.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				l.write(nil)
			case <-done:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		beating.Wait()
	})
}

// backupType is the media type of a file of SQLite.
const backupType = "application/vnd.sqlite3"

// backupStore makes a backup in a temporary directory and answers with it.
func (s *Server) backupStore(x *web.Exchange) (err error) {
	folder, err := os.MkdirTemp(s.opts.Temp, "backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "reprise.db")
	if err := upkeep.Backup(x.R.Context(), s.opts.Store, path); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	x.W.Header().Set("Content-Type", backupType)
	x.W.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10)) // a backup that is cut short shows
	x.W.WriteHeader(http.StatusOK)
	for {
		x.AllowWrite()
		if _, err := io.CopyN(x.W, file, 1<<20); err != nil {
			return nil // at its end, or the client has gone: the answer has begun
		}
	}
}
