// Package storetest checks that a Store keeps the contract of reprise.Store.
//
// Whoever writes a backend, or a Store around a Store, gives Run a function that
// opens it, and has the whole conformance test in a few lines; see the example. Every sentence of
// the contract that says "must" has a check, and a check that fails quotes the
// sentence. Benchmark measures what a Log asks of a Store.
//
// The suite relies on nothing but the contract. It opens a fresh Store for each
// check and checks the optional abilities, reprise.Watcher, reprise.Sweeper,
// reprise.Sizer and reprise.CreateAppender, where the Store has them. A method that answers
// errors.ErrUnsupported is one that it has not.
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

// Opener makes an empty place for the data of one Store: a folder, a
// database, a key prefix. Run calls it for each check; what it sets up is released with
// tb.Cleanup.
type Opener func(tb testing.TB) Harness

// Harness opens Stores in one place.
type Harness struct {
	// Open opens the Store. It is called again after the Store was closed, or
	// after Crash, and then opens the same data.
	Open func() (reprise.Store, error)
	// Persistent says that what was acknowledged outlives the Store. Without
	// it, Open is called once.
	Persistent bool
	// Crash, if not nil, leaves the place as a crash of the program would at this moment,
	// while store is in use. The next Open opens what is left; store is closed
	// before, and what it still writes must not count. For a Store of files Crash may copy them
	// and have Open use the copy. Without it the Store is closed in the middle of its work.
	Crash func(store reprise.Store) error
	// Fault, if not nil, makes appends to store fail for a cause that may
	// pass, such as a full disk or a lost connection, until mend is called.
	Fault func(store reprise.Store) (mend func() error, err error)
	// Share, if not nil, opens another replica on the data of the Store that Open has opened,
	// while that one is in use. A Store that is a reprise.Watcher needs it. Each is closed by the suite.
	Share func() (reprise.Store, error)
	// Deafen, if not nil, cuts the connections by which store hears what other replicas do, and
	// returns at once. They must come back by themselves.
	Deafen func(store reprise.Store) error
	// Cut, if not nil, cuts all connections of store to its server, whatever is under way on them, and returns
	// at once. They must come back by themselves. A Store of a server needs it.
	Cut func(store reprise.Store) error
	// Renews says that after Fault and Cut a stream may be in another epoch although its server has lost nothing, since
	// the Store cannot know that.
	Renews bool
	// Lose, if not nil, prepares a loss. Take makes the server of store lose all that was acknowledged after that, as a
	// failover to a replica that has not received it does, and returns when store can be used again.
	Lose func(store reprise.Store) (take func() error, err error)
}

// Options are the settings of Run and Benchmark. The zero value of each field
// means its default.
type Options struct {
	// Events is how long the longest stream gets. Default: 1,000,000, and
	// 100,000 under the race detector.
	Events int
	// Streams is how many streams there are at most. Default: 100,000, and
	// 5,000 under the race detector.
	Streams int
	// Groups are the names of the groups of checks that Run runs, such as "loss". Default: all.
	Groups []string
	// Timeout bounds each check. Default: 5 minutes.
	Timeout time.Duration

	// patience is how long something that happens by itself may take.
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

// Run runs every check, each as a subtest of its own. opts may be nil.
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

// group is the checks of one concern.
type group struct {
	name   string
	checks []check
}

func suite() []group {
	return []group{
		{"create", createChecks},
		{"create with a batch", createAppendChecks},
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

// abilitiesOf opens the Store once to see what it can do.
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

// try carries out c on a fresh Store and says what it found.
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
