package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"reprise"
	"reprise/internal/bytesize"
	"reprise/internal/storeurl"
	"reprise/internal/transfer"
	"reprise/internal/upkeep"
)

// storeCopyCmd copies one store into another.
type storeCopyCmd struct {
	storeKeys `embed:""`
	quietly   `embed:""`

	From storeURL `arg:"" help:"The store to copy, for example sqlite: for the one in --data, or @FILE for a file with its URL."`
	To   storeURL `arg:"" help:"The store to copy to, or @FILE for a file with its URL."`

	Data     string         `default:"${state}" placeholder:"DIR" help:"Data directory that log: and sqlite: without a path mean. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Tenant   reprise.Tenant `placeholder:"TENANT" help:"Copy only the streams of this tenant."`
	Parallel int            `default:"16" placeholder:"N" help:"Streams to copy at a time. Default: ${default}."`
	JSON     bool           `name:"json" help:"Print lines of JSON: progress, what failed, and the result."`

	bar *progress
}

// Help is shown below the usage.
func (*storeCopyCmd) Help() string {
	return `Streams keep their epoch, window, owner, producers, end and time of expiry. Issued cursors therefore stay valid if the new server has the file "keys" of the old one's data directory. Copied data is read back and compared with the source, byte by byte.

An interrupted copy continues where it stopped when it is run again. A stream with active writers is copied as far as possible and listed at the end: run the copy again when its writers have stopped. Marks of expired streams are not copied. Streams that exist in the target with another epoch or with later events are listed and not changed.

Exit codes: 0 everything is copied; 1 something could not be copied; 2 wrong usage.`
}

// Run copies.
func (c *storeCopyCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	if sameStore(c.From.url, c.To.url, c.Data) {
		return usage("%s: a store cannot be copied to itself", c.From)
	}
	from, err := openPlace(ctx, c.From.url, c.Data, &c.storeKeys, true)
	if err != nil {
		return err
	}
	// An archive may hold encrypted data: its first opening determines the wrappers.
	opts := &storeurl.Options{Keys: c.file(c.Data), Unmarked: isArchive(c.From.url)}
	to, err := openPlaceWith(ctx, c.To.url, c.Data, opts, false)
	if err != nil {
		return errors.Join(err, from.close())
	}
	started := time.Now()
	c.bar = newProgress(os.Stderr, c.Quiet || c.JSON)
	result, err := transfer.Copy(ctx, from.store, to.store, &transfer.Options{
		Tenant: c.Tenant, Parallel: c.Parallel, Progress: c.progress,
	})
	c.bar.end()
	if err == nil && c.Tenant == "" && len(result.Moving)+len(result.Failed) == 0 {
		err = upkeep.CopyStart(ctx, from.store, to.store)
	}
	return errors.Join(err, c.report(&result, time.Since(started)), from.close(), to.close())
}

// sameStore reports whether two URLs name the same store, as far as the URLs tell.
func sameStore(a, b, data string) bool {
	if storeurl.Part(a) != storeurl.Part(b) {
		return false
	}
	fileA, isFileA := storeurl.Path(data, a)
	fileB, isFileB := storeurl.Path(data, b)
	if !isFileA || !isFileB {
		_, a = storeurl.Split(a)
		_, b = storeurl.Split(b)
		return a == b
	}
	one, err := os.Stat(fileA)
	other, errOther := os.Stat(fileB)
	if err != nil || errOther != nil {
		return fileA == fileB
	}
	return os.SameFile(one, other)
}

// progress prints progress for people on stderr, and for programs on stdout.
func (c *storeCopyCmd) progress(p transfer.Progress) {
	if c.JSON {
		_ = printObject(map[string]any{"progress": p})
		return
	}
	c.bar.count(p.Done, p.Found, p.Events, p.Bytes)
}

// report prints the result.
func (c *storeCopyCmd) report(r *transfer.Result, took time.Duration) error {
	if c.JSON {
		for _, f := range r.Failed {
			if err := printObject(map[string]string{
				"tenant": string(f.Key.Tenant), "stream": f.Key.Name,
				"failed": f.Err.Error(),
			}); err != nil {
				return err
			}
		}
		for _, key := range r.Moving {
			if err := printObject(map[string]string{
				"tenant": string(key.Tenant), "stream": key.Name,
				"moving": "appended to meanwhile",
			}); err != nil {
				return err
			}
		}
		return printObject(map[string]any{"result": struct {
			transfer.Result
			Moving int `json:"moving"`
			Failed int `json:"failed"`
		}{*r, len(r.Moving), len(r.Failed)}})
	}
	for _, key := range r.Moving {
		fmt.Fprintf(os.Stderr,
			"reprise: stream %s was appended to meanwhile: run this again when its writers have stopped\n", key)
	}
	return c.sayResult(
		"copied %d streams with %d events, %v, in %v; %d were there already, %d went meanwhile, %d failed\n",
		r.Copied, r.Events, bytesize.Size(r.Bytes), took.Round(time.Millisecond), r.Present, r.Gone, len(r.Failed))
}
