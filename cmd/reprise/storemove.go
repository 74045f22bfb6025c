package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"reprise"
	"reprise/internal/bytesize"
	"reprise/internal/datadir"
	"reprise/internal/durable"
	"reprise/internal/storeurl"
	"reprise/internal/upkeep"
	"reprise/store/sqlitestore"
)

// storeMoveCmd moves an embedded store to the other technology.
type storeMoveCmd struct {
	quietly `embed:""`

	From storeURL `arg:"" help:"The store to move: sqlite: or log:, for the one in --data, or with a path."`
	To   storeURL `arg:"" help:"Where to move it: log: or sqlite:, or with a path."`

	Data string `default:"${state}" placeholder:"DIR" help:"Data directory that a URL without a path means. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	JSON bool   `name:"json" help:"Print lines of JSON: progress, and the result."`
}

// Help is shown below the usage.
func (*storeMoveCmd) Help() string {
	return `Everything that a server keeps in its store goes along: streams with their epochs, windows, ends and times of expiry, executions, keys, schedules, webhooks. Cursors stay valid. Data that is compressed or encrypted stays so: start the server with the same words in front of the other URL. Only marks of expired streams stay behind, so that their readers get 404 in place of 410. Copied data is read back and compared with the source, byte by byte.

No server may run on either store. The disk needs room for both. A move that was interrupted at any moment goes on when it is run again; until it is done the source is unchanged and stays the store of the server. When it is done the source has ".moved" behind its name, and can be removed.

Exit codes: 0 everything has moved; 1 failure, and the source is the store as before; 2 wrong usage.`
}

// moved and moving are behind the names of a store that was moved, and of one that is not whole.
const moved, moving = ".moved", ".moving"

// Run moves.
func (c *storeMoveCmd) Run(ctx context.Context, asked *stops) (err error) {
	ctx, release := asked.context(ctx)
	defer release()
	var ends [2]movedEnd
	for i, url := range []string{c.From.url, c.To.url} {
		if ends[i], err = c.end(url); err != nil {
			return err
		}
	}
	from, to := ends[0], ends[1]
	if sameStore(c.From.url, c.To.url, c.Data) {
		return usage("%s: a store cannot be moved to itself", c.From)
	}
	if from.inData || to.inData {
		dir, err := datadir.Lock(c.Data)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dir.Close()) }()
	}
	switch old := from.path + moved; {
	case from.exists() && exists(old):
		return usage("%s is left of an earlier move: remove it, or give it another name", old)
	case !from.exists() && to.exists() && exists(old):
		return c.sayResult("it was moved already; the old store is %s\n", old)
	case !from.exists():
		return fmt.Errorf("%s: there is no store yet: %w", from.path, fs.ErrNotExist)
	}
	return c.move(ctx, from, to)
}

// movedEnd is the source or the target of a move.
type movedEnd struct {
	scheme, path string
	inData       bool // its URL names no path
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (e *movedEnd) exists() bool { return exists(e.path) }

func (c *storeMoveCmd) end(url string) (movedEnd, error) {
	path, ok := storeurl.Path(c.Data, url)
	wrappers, base := storeurl.Split(url)
	switch {
	case !ok:
		return movedEnd{}, usage("%s: only sqlite: and log: are moved; see \"reprise store copy\"",
			storeurl.Redact(url))
	case len(wrappers) > 0:
		return movedEnd{}, usage("%s: data is moved as it lies there: name the store without %s+", url,
			strings.Join(wrappers, "+"))
	case c.Data == "":
		return movedEnd{}, datadir.ErrNone
	}
	scheme, rest, _ := strings.Cut(base, ":")
	return movedEnd{scheme, path, rest == ""}, nil
}

// open opens the store at a path. It is the target of a move if it need not be durable before it is closed.
func (e *movedEnd) open(ctx context.Context, path string, target bool) (reprise.Store, error) {
	if target && e.scheme == "sqlite" {
		store, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{Sync: sqlitestore.SyncNormal})
		if err != nil {
			return nil, err // and not a Store that is a nil pointer
		}
		return store, nil
	}
	return storeurl.Open(ctx, e.scheme+":"+path, &storeurl.Options{Unchecked: true, MaxStreams: math.MaxInt})
}

// move copies from to another name beside to, and then changes the names. If to is there already, an earlier
// move has come that far.
func (c *storeMoveCmd) move(ctx context.Context, from, to movedEnd) error {
	target := to.path + moving
	if to.exists() {
		target = to.path
	}
	source, err := from.open(ctx, from.path, false)
	if err != nil {
		return err
	}
	store, err := to.open(ctx, target, true)
	if err != nil {
		return errors.Join(err, source.Close())
	}
	started := time.Now()
	report := storeCopyCmd{JSON: c.JSON, quietly: c.quietly, bar: newProgress(os.Stderr, c.Quiet || c.JSON)}
	result, err := upkeep.Move(ctx, source, store, target != to.path, report.progress)
	report.bar.end()
	if err = errors.Join(err, source.Close(), store.Close()); err != nil {
		return fmt.Errorf("%w; the store is %s as before: run this again", err, from.path)
	}
	if err := errors.Join(rename(target, to.path), rename(from.path, from.path+moved)); err != nil {
		return fmt.Errorf("%w; run this again", err)
	}
	if c.JSON {
		return printObject(map[string]any{"result": result, "store": to.path, "old": from.path + moved})
	}
	return c.sayResult("moved %d streams with %d events, %v, in %v; %d were there already\n"+
		"the store is %s now, and the old one %s, which can be removed\n",
		result.Copied, result.Events, bytesize.Size(result.Bytes), time.Since(started).Round(time.Millisecond),
		result.Present, to.path, from.path+moved)
}

// rename renames a store that is closed, durably. What lies beside a file of SQLite says nothing then, and goes.
func rename(old, path string) error {
	if old == path {
		return nil
	}
	for _, log := range []string{"-wal", "-shm"} {
		if exists(old + log) {
			return fmt.Errorf("%s%s is there, although the file is closed", old, log)
		}
	}
	for _, beside := range []string{".reserve", ".lock"} {
		if err := os.Remove(old + beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return durable.Rename(old, path)
}
