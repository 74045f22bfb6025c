package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"reprise"
	"reprise/internal/archive"
	"reprise/internal/archive/remote"
	"reprise/internal/bytesize"
	"reprise/internal/storeurl"
)

// storeArchiveCmd archives ended streams.
type storeArchiveCmd struct {
	storeKeys `embed:""`
	quietly   `embed:""`

	From storeURL `arg:"" help:"The store, for example sqlite: for the one in --data, or @FILE for a file with its URL."`
	Dest string   `arg:"" help:"The archive: file:DIR, s3://BUCKET/PREFIX?endpoint=URL&region=REGION, or kafka://HOST:PORT,HOST:PORT/TOPIC?tls=true."`

	Data      string         `default:"${state}" placeholder:"DIR" help:"Data directory that log: and sqlite: without a path mean. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	OlderThan time.Duration  `placeholder:"DURATION" help:"Archive streams that ended at least this long ago. Default: all ended streams."`
	Remove    bool           `help:"Remove each stream from the store once it is archived."`
	Tenant    reprise.Tenant `placeholder:"TENANT" help:"Archive only the streams of this tenant."`
	JSON      bool           `name:"json" help:"Print lines of JSON: what failed, and the result."`
}

// Help is shown below the usage.
func (*storeArchiveCmd) Help() string {
	return `Each ended stream is written to one file or object, TENANT/NAME/@CREATED.EPOCH.reprise, which appears complete or not at all. Streams that are already archived are skipped. "reprise store check" and "reprise store copy" read the archives file:DIR and s3://... like stores. An archive in Kafka cannot be read, and each run writes the streams to the topic again.

The archives s3: and kafka: need the program reprise-archive in the same directory as this program ("go build -o bin/ ./cmd/..." builds both). "go run ./cmd/reprise" builds it when it is needed.

The credentials for a bucket are read from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.

Exit codes: 0 all is archived; 1 something could not be archived; 2 wrong usage.`
}

// openArchive opens the archive that a URL names. An archive of files or in a bucket is a *archive.Store, which can be
// read; a topic can only be written.
func openArchive(ctx context.Context, url string) (archive.Sink, error) {
	scheme, _, _ := strings.Cut(url, ":")
	var place archive.Place
	var err error
	switch scheme {
	case "file":
		dir, ok := archiveDir(url)
		if !ok {
			return nil, usage("archive %s: want file:DIR", url)
		}
		place, err = archive.OpenFolder(dir)
	case "s3", "kafka":
		helper, err := startArchiveHelper(ctx, url)
		if err != nil {
			return nil, archiveUsage(url, err)
		}
		if scheme == "kafka" {
			return remote.Topic{Helper: helper}, nil
		}
		place = remote.Place{Helper: helper}
	default:
		return nil, usage("archive %s: take file:DIR, s3://BUCKET/PREFIX or kafka://HOST:PORT/TOPIC",
			storeurl.Redact(url))
	}
	if err != nil {
		return nil, archiveUsage(url, err)
	}
	store, err := archive.Open(place)
	if err != nil {
		return nil, errors.Join(err, place.Close())
	}
	return store, nil
}

// archived puts the archive of a server behind its store, inside the wrappers of the store, so that data which they
// encrypt is encrypted in the archive too. It returns nil if there is no archive.
func (c *serveCmd) archived(ctx context.Context, logger *slog.Logger) func(reprise.Store) (reprise.Store, error) {
	if c.Archive == "" {
		return nil
	}
	return func(store reprise.Store) (reprise.Store, error) {
		sink, err := openArchive(ctx, c.Archive)
		if err != nil {
			return nil, err
		}
		opts := &archive.Options{Logger: logger}
		if c.SweepEvery > 0 && c.SweepEvery < time.Minute {
			opts.Every = c.SweepEvery
		}
		return archive.Keep(store, sink, opts), nil
	}
}

// archiveUsage converts the error of an invalid archive URL to a usage error that names the archive.
func archiveUsage(url string, err error) error {
	if errors.Is(err, reprise.ErrInvalid) {
		return usage("archive %s: %w", storeurl.Redact(url), err)
	}
	return fmt.Errorf("archive %s: %w", storeurl.Redact(url), err)
}

// isArchive reports whether a URL names an archive that can be read as a store.
func isArchive(url string) bool {
	return strings.HasPrefix(url, "file:") || strings.HasPrefix(url, "s3:")
}

// archiveDir is the directory of an archive file:DIR.
func archiveDir(url string) (dir string, ok bool) {
	dir, ok = strings.CutPrefix(url, "file:")
	dir = strings.TrimPrefix(dir, "//")
	return dir, ok && dir != ""
}

// openArchiveStore opens an existing archive for reading.
func openArchiveStore(ctx context.Context, url string) (reprise.Store, error) {
	if dir, ok := archiveDir(url); ok {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no archive yet: %w", err)
		}
	}
	sink, err := openArchive(ctx, url)
	if err != nil {
		return nil, err
	}
	return sink.(*archive.Store), nil
}

// Run archives.
func (c *storeArchiveCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	if isArchive(c.From.url) {
		return usage("%s is an archive already", c.From)
	}
	// As the URL says: encrypted data may be archived as it is stored.
	from, err := openPlaceWith(ctx, c.From.url, c.Data, &storeurl.Options{Keys: c.file(c.Data), Unchecked: true}, true)
	if err != nil {
		return err
	}
	sink, err := openArchive(ctx, c.Dest)
	if err != nil {
		return errors.Join(err, from.close())
	}
	now := time.Now()
	old := func(info *reprise.StreamInfo) bool { return now.Sub(info.End.Time) >= c.OlderThan }
	bar := newProgress(os.Stderr, c.Quiet || c.JSON)
	opts := &archive.Options{Tenant: c.Tenant, Progress: func(r *archive.Result) {
		bar.count(r.Archived+r.Present+int64(len(r.Failed)), 0, r.Events, r.Bytes)
	}}
	result, err := archive.New(from.store, sink, opts).Pass(ctx, old, c.Remove)
	bar.end()
	return errors.Join(err, c.report(&result), sink.Close(), from.close())
}

// report prints the result.
func (c *storeArchiveCmd) report(r *archive.Result) error {
	for _, f := range r.Failed {
		if c.JSON {
			if err := printObject(map[string]string{
				"tenant": string(f.Key.Tenant), "stream": f.Key.Name,
				"failed": f.Err.Error(),
			}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(os.Stderr, "reprise: stream %s: %v\n", f.Key, f.Err)
	}
	var err error
	if c.JSON {
		err = printObject(map[string]any{"result": struct {
			*archive.Result
			Failed int `json:"failed"`
		}{r, len(r.Failed)}})
	} else {
		err = c.sayResult(
			"archived %d streams with %d events, %v; %d were there already, %d removed from the store, %d failed\n",
			r.Archived, r.Events, bytesize.Size(r.Bytes), r.Present, r.Removed, len(r.Failed))
	}
	if err == nil && len(r.Failed) > 0 {
		err = &exit{
			code: exitFailed,
			err:  fmt.Errorf("%d streams could not be archived, and are as they were", len(r.Failed)),
		}
	}
	return err
}

// archiveExpired archives the streams that a sweep is about to remove and those that expire within the next minute, so
// that a sweep which begins then removes nothing else.
func archiveExpired(ctx context.Context, store reprise.Store, url string) error {
	sink, err := openArchive(ctx, url)
	if err != nil {
		return err
	}
	soon := time.Now().Add(time.Minute)
	result, err := archive.New(store, sink, nil).Pass(ctx, func(info *reprise.StreamInfo) bool {
		return !info.End.Expires.After(soon)
	}, false)
	err = errors.Join(err, sink.Close())
	for _, f := range result.Failed {
		err = errors.Join(err, fmt.Errorf("stream %s: %w", f.Key, f.Err))
	}
	if err != nil {
		return fmt.Errorf("nothing is swept, for not all could be archived: %w", err)
	}
	return nil
}
