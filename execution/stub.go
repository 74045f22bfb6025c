package execution

import (
	"context"
	"io"
	"log/slog"
	"time"

	"reprise"
)

// placeholder while the package is being written
type Options struct {
	// MaxRunning is how many runs there are at a time; 0 is 64.
	MaxRunning int
	// MaxRunningPerSession is how many of one session; 0 is no bound.
	MaxRunningPerSession int
	// MaxQueued is how many wait at most; 0 is 1000.
	MaxQueued       int
	MaxTimeout      time.Duration
	Grace           time.Duration
	DrainTimeout    time.Duration
	DisconnectGrace time.Duration
	Retention       reprise.Retention
	Dir             string
	StateDir        string
	PassEnv         []string
	Secret          []byte
	DisableCgroups  bool
	Logger          *slog.Logger
	Hooks           *Hooks
}

type Hooks struct {
	// Started: a process was started (err nil) or not; waited is the time in the queue.
	Started func(tenant reprise.Tenant, waited time.Duration)
	// Ended: the end event was stored.
	Ended func(tenant reprise.Tenant, outcome Outcome, duration time.Duration)
	// Stalled: output waited that long for the store.
	Stalled func(tenant reprise.Tenant, d time.Duration)
}

type Counts struct{ Running, Queued int }

type Host struct{}

type ListQuery struct {
	Session string
	Status  Status
	Labels  map[string]string
	Limit   int    // 1 to 1000, 0 is 100
	After   string // ListPage.Next
}
type ListPage struct {
	Executions []Execution
	Next       string
}
type StdinWrite struct {
	Offset int64 // -1: none
	Data   io.Reader
	EOF    bool
}
type Stdin struct {
	Offset int64 `json:"offset"`
	Open   bool  `json:"open"`
}
type Session struct {
	ID         string      `json:"id"`
	Created    Time        `json:"created"`
	Updated    Time        `json:"updated"`
	Count      int         `json:"count"`
	Running    int         `json:"running"`
	Queued     int         `json:"queued"`
	LastSeq    uint64      `json:"last_seq"`
	Executions []Execution `json:"executions,omitempty"`
}
type SessionPage struct {
	Sessions []Session
	Next     string
}

var languages = map[string]*struct{}{}

func Languages() []string { return nil }

func Open(ctx context.Context, log *reprise.Log, opts *Options) (*Host, error) { return nil, nil }
func (h *Host) Start(ctx context.Context, tenant reprise.Tenant, req Request) (x Execution, created bool, err error) {
	return
}
func (h *Host) Show(ctx context.Context, tenant reprise.Tenant, id string) (x Execution, err error) {
	return
}
func (h *Host) List(ctx context.Context, tenant reprise.Tenant, q ListQuery) (p ListPage, err error) {
	return
}
func (h *Host) Stream(ctx context.Context, tenant reprise.Tenant, id string) (s *reprise.Stream, err error) {
	return
}
func (h *Host) Follow(tenant reprise.Tenant, id string) (release func()) { return func() {} }
func (h *Host) WriteStdin(ctx context.Context, tenant reprise.Tenant, id string, w StdinWrite) (s Stdin, err error) {
	return
}
func (h *Host) Signal(ctx context.Context, tenant reprise.Tenant, id, name string) error { return nil }
func (h *Host) Cancel(ctx context.Context, tenant reprise.Tenant, id string) error       { return nil }
func (h *Host) Remove(ctx context.Context, tenant reprise.Tenant, id string) error       { return nil }
func (h *Host) Sessions(ctx context.Context, tenant reprise.Tenant, limit int, after string) (p SessionPage, err error) {
	return
}
func (h *Host) Session(ctx context.Context, tenant reprise.Tenant, id string) (s Session, err error) {
	return
}
func (h *Host) RemoveSession(ctx context.Context, tenant reprise.Tenant, id string) error { return nil }
func (h *Host) Output(ctx context.Context, tenant reprise.Tenant, id, channel string) (o *Output, err error) {
	return
}
func (h *Host) Counts() Counts                 { return Counts{} }
func (h *Host) Stop(ctx context.Context) error { return nil }
func (h *Host) Close() error                   { return nil }

// Copy writes length bytes (-1: to the end) from offset on; with follow it waits for more until the end.
func (o *Output) Copy(ctx context.Context, w io.Writer, offset, length int64, follow bool) (n int64, err error) {
	return
}
