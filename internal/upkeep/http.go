package upkeep

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/identity"
	"reprise/internal/problem"
	"reprise/internal/transfer"
	"reprise/internal/web"
)

// API measures, sweeps, checks and backs up the store of a Log over HTTP.
type API struct {
	Log *reprise.Log
	// Store is the store of the Log with its wrappers.
	Store reprise.Store
	// Temp is the data directory, in which backups are made before they are sent. Default: that for temporary files.
	Temp string
	// Heartbeat is the time between two blank lines of a check. Default: 15 s.
	Heartbeat time.Duration
}

// Routes implements web.Part.
func (a API) Routes(m *web.Mux) {
	m.Handle("GET", "/v1/store", identity.ScopeAdmin, []string{"advise"}, a.stats)
	m.Handle("POST", "/v1/store/sweep", identity.ScopeAdmin, nil, a.sweep)
	m.Handle("POST", "/v1/store/check", identity.ScopeAdmin, []string{"opaque"}, a.check)
	m.Handle("POST", "/v1/store/backup", identity.ScopeAdmin, nil, a.backup)
}

// stats answers with the statistics of the store.
func (a API) stats(x *web.Exchange) error {
	advise, err := x.Query.Flag("advise")
	if err != nil {
		return err
	}
	stats, err := Measure(x.R.Context(), a.Log, a.Store, a.Temp)
	if err == nil && advise {
		stats.Advice, err = Advise(x.R.Context(), a.Log, stats.Tenants, time.Now())
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, stats)
}

// sweep sweeps now.
func (a API) sweep(x *web.Exchange) error {
	swept, err := a.Log.Sweep(x.R.Context())
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, client.Swept(swept))
}

// check reads everything and answers with a line for each fault, blank lines as heartbeats, and one last line:
// {"checked":...}, or {"failed":...} if the check could not be finished.
func (a API) check(x *web.Exchange) error {
	opaque, err := x.Query.Flag("opaque")
	if err != nil {
		return err
	}
	x.W.Header().Set("Content-Type", web.NDJSON)
	x.W.WriteHeader(http.StatusOK)
	out := &lineWriter{x: x}
	defer out.beat(cmp.Or(a.Heartbeat, 15*time.Second))()
	checked, err := transfer.Check(x.R.Context(), a.Store, &transfer.CheckOptions{Opaque: opaque}, out.wrong)
	if err != nil {
		out.write(map[string]problem.Problem{"failed": problem.From(err)})
		return nil
	}
	out.write(map[string]transfer.Checked{"checked": checked})
	return nil
}

// lineWriter writes lines of JSON as they come.
type lineWriter struct {
	mu sync.Mutex
	x  *web.Exchange
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
	l.x.AllowWrite()
	_, _ = l.x.W.Write(append(line, '\n'))
	_ = http.NewResponseController(l.x.W).Flush()
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

// backup makes a backup in a temporary directory and answers with it.
func (a API) backup(x *web.Exchange) (err error) {
	folder, err := os.MkdirTemp(a.Temp, "backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "reprise.db")
	if err := Backup(x.R.Context(), a.Store, path); err != nil {
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
