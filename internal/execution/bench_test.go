package execution_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

// BenchmarkOutput lets a command print 200 MB, beside the same command into a file by cat.
func BenchmarkOutput(b *testing.B) {
	const size = 200 << 20
	dir := b.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, text(size), 0o600); err != nil {
		b.Fatal(err)
	}
	command := "cat " + source
	b.Run("limit=cat", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if err := exec.Command("sh", "-c", fmt.Sprintf("%s | cat > %s/copy", command, dir)).Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, supervised := range []bool{false, true} {
		b.Run(fmt.Sprintf("supervised=%t/store=memory", supervised), func(b *testing.B) {
			benchmarkOutput(b, memstore.New(nil), command, size, supervised)
		})
		b.Run(fmt.Sprintf("supervised=%t/store=sqlite", supervised), func(b *testing.B) {
			store, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "reprise.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			benchmarkOutput(b, store, command, size, supervised)
		})
	}
}

// benchmarkOutput runs a command that prints size bytes, all of which are kept.
func benchmarkOutput(b *testing.B, store reprise.Store, command string, size int64, supervised bool) {
	defer store.Close()
	log, err := reprise.Open(context.Background(), store, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	var stalled time.Duration
	opts := &execution.Options{
		Hooks: &execution.Hooks{Stalled: func(_ reprise.Tenant, d time.Duration) { stalled += d }},
	}
	if supervised {
		opts.RunsDir = b.TempDir()
	}
	h, err := execution.Open(context.Background(), log, opts)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	b.SetBytes(size)
	for b.Loop() {
		x := runToEnd(b, h,
			execution.Request{Command: command, Retention: execution.Retention{MaxBytes: 1 << 30, MaxEvents: 1 << 20}})
		if x.Bytes.Stdout != size {
			b.Fatalf("%d bytes", x.Bytes.Stdout)
		}
		b.StopTimer()
		if err := h.Remove(context.Background(), reprise.DefaultTenant, x.ID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(stalled.Milliseconds())/float64(b.N), "stalled-ms/op")
}

// startOptions are the ways in which commands are run.
func startOptions(b *testing.B) map[string]*execution.Options {
	return map[string]*execution.Options{
		"tree=cgroup": {}, "tree=scan": {DisableCgroups: true},
		"tree=supervised": {RunsDir: b.TempDir()}, "tree=subreaper": {RunsDir: b.TempDir(), DisableCgroups: true},
	}
}

// benchHost opens a Host over memory until the end of the benchmark.
func benchHost(b *testing.B, opts *execution.Options) *execution.Host {
	b.Helper()
	log, err := reprise.Open(context.Background(), memstore.New(nil), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	h, err := execution.Open(context.Background(), log, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = h.Close() })
	return h
}

// BenchmarkStart runs the smallest command from its start to its end event, one after the other and eight at a time.
func BenchmarkStart(b *testing.B) {
	for name, opts := range startOptions(b) {
		for _, parallel := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/parallel=%d", name, parallel), func(b *testing.B) {
				h := benchHost(b, opts)
				inParallel(b, parallel, func() { runToEnd(b, h, execution.Request{Argv: []string{"true"}}) })
			})
		}
	}
	for _, parallel := range []int{1, 8} {
		b.Run(fmt.Sprintf("limit=exec/parallel=%d", parallel), func(b *testing.B) {
			inParallel(b, parallel, func() {
				if err := exec.Command("true").Run(); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// inParallel calls f b.N times.
func inParallel(b *testing.B, parallel int, f func()) {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				f()
			}
		})
	}
	all.Wait()
}

// BenchmarkFirstByte is the time from the start of a command to the first byte of its output, with a supervisor that
// waited for it, and with one that has to be started.
func BenchmarkFirstByte(b *testing.B) {
	b.Run("limit=exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("echo", "x").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, opts := range startOptions(b) {
		b.Run(name, func(b *testing.B) {
			h := benchHost(b, opts)
			runToEnd(b, h, execution.Request{Argv: []string{"true"}})
			for b.Loop() {
				firstByte(b, h)
			}
		})
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			h := benchHost(b, &execution.Options{RunsDir: b.TempDir(), MaxIdle: -1})
			b.StartTimer()
			firstByte(b, h)
			b.StopTimer()
			_ = h.Close()
			b.StartTimer()
		}
	})
}

func firstByte(b *testing.B, h *execution.Host) {
	ctx := context.Background()
	x, _, err := h.Start(ctx, reprise.DefaultTenant, execution.Request{Argv: []string{"echo", "x"}})
	if err != nil {
		b.Fatal(err)
	}
	s, err := h.Stream(ctx, reprise.DefaultTenant, x.ID)
	if err != nil {
		b.Fatal(err)
	}
	r, err := s.Reader(ctx, reprise.Earliest())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Events(ctx) {
		if err != nil {
			b.Fatal(err)
		}
		if e.Type == execution.Stdout {
			return
		}
	}
}

func runToEnd(b *testing.B, h *execution.Host, req execution.Request) execution.Execution {
	b.Helper()
	ctx := context.Background()
	x, _, err := h.Start(ctx, reprise.DefaultTenant, req)
	if err != nil {
		b.Fatal(err)
	}
	s, err := h.Stream(ctx, reprise.DefaultTenant, x.ID)
	if err != nil {
		b.Fatal(err)
	}
	r, err := s.Reader(ctx, reprise.Tail())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for {
		if _, err := r.Next(ctx); err == reprise.ErrEnded {
			break
		} else if err != nil {
			b.Fatal(err)
		}
	}
	if x, err = h.Show(ctx, reprise.DefaultTenant, x.ID); err != nil {
		b.Fatal(err)
	}
	return x
}

// text is lines as a build prints them.
func text(size int) []byte {
	b := make([]byte, 0, size+100)
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, "%08d compile package/of/something_%d.go: warning: nothing is wrong here\n", i, i%97)
	}
	return b[:size]
}

// BenchmarkRememberedNames looks up a name that was used, and one that was not, among others that are remembered. It
// reports what a name takes in memory and on disk.
func BenchmarkRememberedNames(b *testing.B) {
	for _, kind := range []string{"memory", "sqlite"} {
		for _, names := range []int{1, 1000, 1_000_000} {
			b.Run(fmt.Sprintf("store=%s/names=%d", kind, names), func(b *testing.B) {
				benchmarkNames(b, kind, names)
			})
		}
	}
}

func benchmarkNames(b *testing.B, kind string, names int) {
	ctx, dir := context.Background(), b.TempDir()
	var store reprise.Store = memstore.New(nil)
	if kind == "sqlite" {
		var err error
		if store, err = sqlitestore.Open(ctx, filepath.Join(dir, "reprise.db"), nil); err != nil {
			b.Fatal(err)
		}
	}
	defer store.Close()
	log, err := reprise.Open(ctx, store, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	h, err := execution.Open(ctx, log, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	req := func(i int) execution.Request {
		return execution.Request{ID: fmt.Sprintf("build-%026d", i), Command: "true"}
	}
	before := heap()
	var filling sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		filling.Go(func() {
			for i := int(next.Add(1)); i <= names; i = int(next.Add(1)) {
				if err := h.NoteForTest(ctx, reprise.DefaultTenant, req(i), time.Now()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	filling.Wait()
	inMemory := float64(heap()-before) / float64(names)
	var onDisk int64
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range files {
		if stat, err := os.Stat(file); err == nil {
			onDisk += stat.Size()
		}
	}
	for _, found := range []bool{true, false} {
		b.Run(fmt.Sprintf("used=%t", found), func(b *testing.B) {
			n := 0
			for b.Loop() {
				n++
				id := req(1 + n%names).ID
				if !found {
					id = "new" + id
				}
				if x, err := h.Show(ctx, reprise.DefaultTenant, id); (err == nil && x.Expired) != found {
					b.Fatal(id, err)
				}
			}
			b.ReportMetric(inMemory, "heap-B/name")
			b.ReportMetric(float64(onDisk)/float64(names), "disk-B/name")
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
