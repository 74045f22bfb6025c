package execution_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	b.Run("store=memory", func(b *testing.B) { benchmarkOutput(b, memstore.New(nil), command, size) })
	b.Run("store=sqlite", func(b *testing.B) {
		store, err := sqlitestore.Open(b.Context(), filepath.Join(dir, "reprise.db"), nil)
		if err != nil {
			b.Fatal(err)
		}
		benchmarkOutput(b, store, command, size)
	})
}

// benchmarkOutput runs a command that prints size bytes, all of which are kept.
func benchmarkOutput(b *testing.B, store reprise.Store, command string, size int64) {
	defer store.Close()
	log, err := reprise.Open(context.Background(), store, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	var stalled time.Duration
	h, err := execution.Open(context.Background(), log, &execution.Options{
		Hooks: &execution.Hooks{Stalled: func(_ reprise.Tenant, d time.Duration) { stalled += d }},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	b.SetBytes(size)
	for b.Loop() {
		x := runToEnd(b, h, execution.Request{Command: command, Retention: execution.Retention{MaxBytes: 1 << 30, MaxEvents: 1 << 20}})
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

// BenchmarkStart runs the smallest command from its start to its end event.
func BenchmarkStart(b *testing.B) {
	for _, scan := range []bool{false, true} {
		b.Run(fmt.Sprintf("scan=%t", scan), func(b *testing.B) {
			log, err := reprise.Open(context.Background(), memstore.New(nil), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer log.Close()
			h, err := execution.Open(context.Background(), log, &execution.Options{DisableCgroups: scan})
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close()
			for b.Loop() {
				runToEnd(b, h, execution.Request{Argv: []string{"true"}})
			}
		})
	}
	b.Run("limit=exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
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
