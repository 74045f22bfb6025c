// Package storetest checks that a Store satisfies the contract of reprise.Store.
//
// The author of a backend, or of a Store that wraps a Store, calls Run with a function that opens it. The complete
// conformance test takes a few lines; see the example. Every sentence of the contract that says "must" has a check, and
// a failing check quotes its sentence. Benchmark measures the operations that a Log uses.
//
// The suite relies on nothing but the contract. It opens a fresh Store for each check. It checks the optional abilities
// reprise.Watcher, reprise.Sweeper, reprise.Sizer and reprise.CreateAppender if the Store has them. A method that
// returns errors.ErrUnsupported counts as missing.
package storetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"reprise"
)

// Opener creates an empty place for the data of one Store: a directory, a database or a key prefix. Run calls it for
// each check. The Opener releases its resources with tb.Cleanup.
type Opener func(tb testing.TB) Harness

// Harness opens Stores in one place.
type Harness struct {
	// Open opens the Store. Run calls it again after it has closed the Store, or after Crash. It then opens the same
	// data.
	Open func() (reprise.Store, error)
	// Persistent says that what was acknowledged outlives the Store. If it is false, Open is called once.
	Persistent bool
	// Crash, if not nil, leaves the data as a crash of the program at this moment would, while store is in use. Run
	// closes store afterwards, and the data must not include what store writes after Crash. The next Open opens the
	// remaining data. For a Store of files, Crash may copy them and Open may use the copy. If Crash is nil, Run closes
	// the Store in the middle of its work instead.
	Crash func(store reprise.Store) error
	// Fault, if not nil, makes appends to store fail for a temporary cause, such as a full disk or a lost connection,
	// until mend is called.
	Fault func(store reprise.Store) (mend func() error, err error)
	// Share, if not nil, opens another replica on the data of the Store that Open has opened, while that Store is in
	// use. It is required for a Store that is a reprise.Watcher. The suite closes each replica.
	Share func() (reprise.Store, error)
	// Deafen, if not nil, cuts the connections over which store receives the notifications of other replicas. It
	// returns at once. The Store must restore them itself.
	Deafen func(store reprise.Store) error
	// Cut, if not nil, cuts all connections of store to its server, even those in use. It returns at once. The Store
	// must restore them itself. Cut is required for a Store that uses a server.
	Cut func(store reprise.Store) error
	// Renews says that a stream may be in another epoch after Fault and Cut, because the Store cannot know that its
	// server has lost nothing.
	Renews bool
	// Lose, if not nil, prepares a loss of events. take makes the server of store lose everything that was acknowledged
	// since Lose was called, like a failover to a replica that did not receive it. It returns when store can be used
	// again.
	Lose func(store reprise.Store) (take func() error, err error)
}

// Options are the settings of Run and Benchmark. The zero value of each field means its default.
type Options struct {
	// Events is the length of the longest stream. Default: 1,000,000, and 100,000 under the race detector.
	Events int
	// Streams is the maximum number of streams. Default: 100,000, and 5,000 under the race detector.
	Streams int
	// Groups are the names of the groups of checks that Run runs, such as "loss". Default: all.
	Groups []string
	// Timeout bounds each check. Default: 5 minutes.
	Timeout time.Duration

	// patience is how long to wait for something that happens in the background.
	patience time.Duration
}

func (o *Options) withDefaults() Options {
	d := Options{Events: 1_000_000, Streams: 100_000, Timeout: 5 * time.Minute, patience: time.Minute}
	if raceDetector {
		d.Events, d.Streams = 100_000, 5_000
	}
	if o == nil {
		return d
	}
	if o.Events > 0 {
		d.Events = o.Events
	}
	if o.Streams > 0 {
		d.Streams = o.Streams
	}
	d.Groups = o.Groups
	if o.Timeout > 0 {
		d.Timeout = o.Timeout
	}
	if o.patience > 0 {
		d.patience = o.patience
	}
	return d
}

// Run runs every check as a subtest. opts may be nil.
func Run(t *testing.T, open Opener, opts *Options) {
	t.Helper()
	able, err := abilitiesOf(open(t))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	o := opts.withDefaults()
	for _, group := range suite() {
		if len(o.Groups) > 0 && !slices.Contains(o.Groups, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.checks {
				if c.needs&^able != 0 {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					if err := c.try(t.Context(), open(t), o); err != nil {
						t.Errorf("%v\n\tthe rule: %s", err, c.rule)
					}
				})
			}
		})
	}
}

// group is a set of checks of one concern.
type group struct {
	name   string
	checks []check
}

func suite() []group {
	return []group{
		{"create", createChecks},
		{"create with a batch", createAppendChecks},
		{"configure", configureChecks},
		{"append", appendChecks},
		{"owners", ownerChecks},
		{"end", endChecks},
		{"producers", producerChecks},
		{"read", readChecks},
		{"list", listChecks},
		{"remove", removeChecks},
		{"sweep", sweepChecks},
		{"sizes", sizeChecks},
		{"names", nameChecks},
		{"watch", watchChecks},
		{"share", shareChecks},
		{"context", contextChecks},
		{"close", closeChecks},
		{"crash", crashChecks},
		{"loss", lossChecks},
		{"border", borderChecks},
		{"scale", scaleChecks},
	}
}

// abilitiesOf opens the Store once to determine its abilities.
func abilitiesOf(h Harness) (ability, error) {
	store, err := h.Open()
	if err != nil {
		return 0, err
	}
	var able ability
	if h.Persistent {
		able |= persists
	}
	if h.Fault != nil {
		able |= faults
	}
	if h.Share != nil {
		able |= shares
	}
	ctx := context.Background()
	if sweeper, ok := store.(reprise.Sweeper); ok {
		if _, err := sweeper.Sweep(ctx, now(), now(), 1); !errors.Is(err, errors.ErrUnsupported) {
			able |= sweeps
		}
	}
	if sizer, ok := store.(reprise.Sizer); ok {
		if _, err := sizer.Sizes(ctx); !errors.Is(err, errors.ErrUnsupported) {
			able |= sizes
		}
	}
	if watcher, ok := store.(reprise.Watcher); ok {
		stop, err := watcher.Watch(key("s"), func() {})
		if err == nil {
			stop()
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			able |= watches
		}
	}
	if able&watches != 0 && able&shares == 0 {
		return 0, errors.Join(errors.New("a Watcher is shared by replicas, which takes Harness.Share"), store.Close())
	}
	if filler, ok := store.(reprise.CreateAppender); ok {
		e := &env{}
		s, req := e.filledStream("s", 1)
		if _, err := filler.CreateAppend(ctx, s.info, req); !errors.Is(err, errors.ErrUnsupported) {
			able |= fills
		}
	}
	if h.Deafen != nil {
		able |= deafens
	}
	if h.Lose != nil {
		able |= loses
	}
	if h.Cut != nil {
		able |= cuts
	}
	return able, store.Close()
}

// try runs c on a fresh Store and returns its failure.
func (c check) try(ctx context.Context, h Harness, o Options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	e := &env{ctx: ctx, harness: h, opts: o}
	defer func() {
		for _, store := range append(e.replicas, e.store) {
			if store == nil {
				continue
			}
			if cerr := store.Close(); err == nil {
				err = cerr
			}
		}
	}()
	return e.attempt(func() {
		e.goroutines = runtime.NumGoroutine()
		e.open()
		c.run(e)
	})
}
