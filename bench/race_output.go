package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
)

// outputRace lets a command print 200 MB, beside the same command that prints into a pipe to cat, and cat
// into a file. A reader then compares the bytes; a lap fails if one of them is missing.
func outputRace() Race {
	const limit = "limit=cat-to-file"
	row := func(store string) Row {
		return Row{
			Target: "C1", What: "a command prints 200 MB, " + store, Unit: "s/run",
			Ours: "store=" + store, Limit: limit, Peers: []string{"limit=cat-to-file-synced"},
			First: Bound{Than: limit, Most: 1.5}, Goal: Bound{Than: limit, Most: 1.5},
		}
	}
	return Race{
		Name: "Output",
		Contenders: []Contender{
			{limit, outputCat(""), false},
			{"limit=cat-to-file-synced", outputCat(" && sync %s.copy"), false},
			{"store=memory", outputReprise("memory"), false},
			{"store=sqlite", outputReprise("sqlite"), false},
		},
		Rows: []Row{row("memory"), row("sqlite")},
	}
}

// outputSource writes what is to be printed into a file.
func outputSource(scale Scale) (path string, text []byte, remove func() error, err error) {
	dir, remove, err := tempDir()
	if err != nil {
		return "", nil, nil, err
	}
	lines := scale.Of(200<<20, 4<<20) / 64
	text = make([]byte, 0, lines*64)
	for i := range lines {
		text = fmt.Appendf(text, "%063d\n", i)
	}
	path = filepath.Join(dir, "source")
	return path, text, remove, os.WriteFile(path, text, 0o600)
}

// outputCat prints into a file; then is what is done with it afterwards.
func outputCat(then string) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		path, _, remove, err := outputSource(scale)
		if err != nil {
			return nil, err
		}
		script := strings.ReplaceAll("cat %s | cat > %s.copy"+then, "%s", path)
		return closing{func(ctx context.Context) (Sample, error) {
			start := time.Now()
			err := exec.CommandContext(ctx, "sh", "-c", script).Run()
			return Sample{"s/run": time.Since(start).Seconds()}, err
		}, remove}, nil
	}
}

func outputReprise(kind string) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		path, text, remove, err := outputSource(scale)
		if err != nil {
			return nil, err
		}
		return closing{func(ctx context.Context) (Sample, error) { return outputLap(ctx, kind, path, text) }, remove},
			nil
	}
}

// outputLap runs the command over a new store, since the history of each lap is as long as all may keep.
func outputLap(ctx context.Context, kind, path string, text []byte) (Sample, error) {
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { _ = remove() }()
	store, err := openStore(ctx, kind, dir)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	log, err := reprise.Open(ctx, store, &reprise.Options{Retention: keepAll})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	host, err := execution.Open(ctx, log, nil)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	start := time.Now()
	x, _, err := host.Start(ctx, reprise.DefaultTenant, execution.Request{Argv: []string{"cat", path}})
	if err != nil {
		return nil, err
	}
	s, err := host.Stream(ctx, reprise.DefaultTenant, x.ID)
	if err != nil {
		return nil, err
	}
	if err := awaitEnd(ctx, s); err != nil {
		return nil, err
	}
	took := time.Since(start)
	return Sample{"s/run": took.Seconds()}, compareOutput(ctx, s, text)
}

// awaitEnd follows the stream to its end.
func awaitEnd(ctx context.Context, s *reprise.Stream) error {
	reader, err := s.Reader(ctx, reprise.Tail())
	if err != nil {
		return err
	}
	defer reader.Close()
	for _, err := range reader.Events(ctx) {
		if err != nil {
			return err
		}
	}
	return nil
}

// compareOutput reads the stream and compares what was printed.
func compareOutput(ctx context.Context, s *reprise.Stream, text []byte) error {
	reader, err := s.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	for e, err := range reader.Events(ctx) {
		if err != nil {
			return err
		}
		if e.Type != "stdout" {
			continue
		}
		if !bytes.HasPrefix(text, e.Data) {
			return fmt.Errorf("%w: event %d is not what was printed", errLost, e.Seq)
		}
		text = text[len(e.Data):]
	}
	if len(text) > 0 {
		return fmt.Errorf("%w: the last %d bytes that were printed", errLost, len(text))
	}
	return nil
}
