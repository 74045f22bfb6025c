package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"

	"reprise"
	"reprise/store/storewrap"
)

// compressRace is E6: what a compiler prints takes a quarter of the space, at seven tenths of the rate.
func compressRace() Race {
	r := Race{Name: "EngineCompress"}
	output := &compilerOutput{}
	for _, streams := range []int{1, engineAppenders} {
		plain := fmt.Sprintf("store=sqlite/streams=%d", streams)
		wrapped := fmt.Sprintf("store=sqlite-compressed/streams=%d", streams)
		r.Contenders = append(
			r.Contenders,
			Contender{Name: plain, Start: compressAppend(output, streams, false)},
			Contender{Name: wrapped, Start: compressAppend(output, streams, true)},
		)
		what := fmt.Sprintf("compiler output, compressed, %d appenders, streams: %d, ", engineAppenders, streams)
		space, rate := Bound{Than: plain, Most: 0.25}, Bound{Than: plain, Least: 0.7}
		r.Rows = append(
			r.Rows,
			Row{Target: "E6", What: what + "space", Unit: "B/event", Ours: wrapped, Limit: plain, First: space},
			Row{Target: "E6", What: what + "rate", Unit: "events/s", Ours: wrapped, Limit: plain, First: rate},
		)
	}
	return r
}

// compilerOutput is what the go command prints while it builds a program with all that it needs, once for a race.
type compilerOutput struct {
	once sync.Once
	text []byte
	err  error
}

func (o *compilerOutput) bytes(ctx context.Context, scale Scale) ([]byte, error) {
	o.once.Do(func() { o.text, o.err = compile(ctx, scale) })
	return o.text, o.err
}

// compile builds a program. For the quick scale it prints the same without doing it.
func compile(ctx context.Context, scale Scale) (out []byte, err error) {
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	files := map[string]string{
		"go.mod":  "module example.com/app\n\ngo 1.26\n",
		"main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	args := []string{"build", "-x", "-a", "-o", os.DevNull, "."}
	if scale.Quick {
		args[1] = "-n"
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir = dir
	if out, err = build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go %v: %w: %s", args, err, out)
	}
	return out, nil
}

// counting counts the bytes of the batches that are stored.
type counting struct {
	reprise.Store
	bytes atomic.Int64
}

func (c *counting) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	for i := range reqs {
		c.bytes.Add(int64(len(reqs[i].Bytes)))
	}
	return c.Store.Append(ctx, reqs)
}

// compressAppend has a hundred append the output in pieces of the size of an event, one after another.
func compressAppend(output *compilerOutput, streams int, compress bool) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		out, err := output.bytes(ctx, scale)
		if err != nil {
			return nil, err
		}
		log, stored, closeAll, err := openCounted(ctx, compress)
		if err != nil {
			return nil, err
		}
		handles := make([]*reprise.Stream, streams)
		for i := range handles {
			key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprint(i)}
			if handles[i], _, err = log.Create(ctx, key, reprise.StreamConfig{}); err != nil {
				return nil, errors.Join(err, closeAll())
			}
		}
		var next, appended atomic.Int64
		pieces := int64(len(out) / eventSize)
		lap := durableLap(engineAppenders, scale, func(appender int) error {
			at := (next.Add(1) - 1) % pieces * eventSize
			_, err := handles[appender%streams].Append(ctx, reprise.Event{Type: "stdout", Data: out[at : at+eventSize]})
			appended.Add(1)
			return err
		})
		return closing{func(ctx context.Context) (Sample, error) {
			bytes, events := stored.bytes.Load(), appended.Load()
			sample, err := lap(ctx)
			if err != nil {
				return nil, err
			}
			sample["B/event"] = float64(stored.bytes.Load()-bytes) / float64(appended.Load()-events)
			return sample, allThere(ctx, handles, appended.Load())
		}, closeAll}, nil
	}
}

// openCounted opens a Log on the disk, with the bytes that come there.
func openCounted(ctx context.Context, compress bool) (*reprise.Log, *counting, func() error, error) {
	dir, remove, err := tempDir()
	if err != nil {
		return nil, nil, nil, err
	}
	disk, err := openDisk(ctx, filepath.Join(dir, "events.db"))
	if err != nil {
		return nil, nil, nil, errors.Join(err, remove())
	}
	stored := &counting{Store: disk}
	var store reprise.Store = stored
	if compress {
		store, err = storewrap.Compress(stored, nil)
	}
	var log *reprise.Log
	if err == nil {
		log, err = reprise.Open(ctx, store, nil)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, disk.Close(), remove())
	}
	return log, stored, func() error { return errors.Join(log.Close(), store.Close(), remove()) }, nil
}
