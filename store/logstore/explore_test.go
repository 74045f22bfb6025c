package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"reprise"
)

var bg = context.Background()

// exploreOptions make every few commits begin a segment, and all else that a Store does with them.
func exploreOptions() Options {
	o := Options{SegmentBytes: 2048, saveChunk: 150, blockBytes: 60, cacheBytes: 100, tryFull: 1, idle: true}
	return o.withDefaults()
}

// TestCrashStates lets random programs run on a disk of which every moment is looked at: for each change that the store
// makes, the disks are built that a loss of power may leave just before it, and a store is opened on each. It must hold
// what was acknowledged, and of the call that was under way all or nothing; it must still do so if the power goes
// again at once; and it must take appends that are then kept.
//
// The number of disks is 100,000, and what CRASH_STATES says where that is set; see "make torture". CRASH_SEED is the
// only program to run. Segments have random salts, so that not every run of it builds the same disks.
func TestCrashStates(t *testing.T) {
	want := int64(100_000)
	if raceEnabled {
		want = 3_000
	}
	seed := uint64(1)
	if text := os.Getenv("CRASH_STATES"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		want, seed = n, rand.Uint64()>>16
		t.Logf("the first seed is %d", seed)
	}
	if text := os.Getenv("CRASH_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		explore(t, n, new(atomic.Int64))
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // garbage is most of what it makes
	var states atomic.Int64
	var next atomic.Uint64
	next.Store(seed)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for states.Load() < want && !t.Failed() {
				explore(t, next.Add(1), &states)
			}
		})
	}
	workers.Wait()
	t.Logf("%d disks", states.Load())
}

// explorer is one program, and the disk that it runs on.
type explorer struct {
	t      *testing.T
	seed   uint64
	rnd    *rand.Rand // of the program
	pick   *rand.Rand // of the disks
	disk   *simDisk
	store  *Store
	states *atomic.Int64

	// accepted are the contents that a loss of power may leave now, the first of which is that of the program.
	accepted []*model
	prints   []string
	doing    string

	failing int  // the change from now on that fails, if not 0
	faulty  bool // the newest step has failed
	nested  bool // a step is made while a snapshot is written
	steps   int
	changes int // of the disk
}

// explore runs the program of a seed.
func explore(t *testing.T, seed uint64, states *atomic.Int64) {
	const steps = 60
	e := &explorer{
		t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), pick: rand.New(rand.NewPCG(seed, 2)),
		disk: newSimDisk(), states: states,
	}
	e.disk.lost = rand.New(rand.NewPCG(seed, 3))
	if seed%3 == 0 { // it gets full
		e.disk.quota = (4 + int64(seed/3%4)) * exploreOptions().SegmentBytes
	}
	e.accept(&model{streams: map[string]*modelStream{}})
	e.disk.before = e.change
	e.reopen()
	for e.steps = 0; e.steps < steps && !t.Failed(); e.steps++ {
		switch n := e.rnd.IntN(40); {
		case n == 0:
			e.doing = "close"
			if err := e.store.Close(); err != nil {
				e.errorf("close: %v", err)
			}
			e.reopen()
		case n == 1 || e.faulty && n < 14: // killed, with the power on
			e.reopen()
		case n < 8:
			e.doing = "tidy"
			e.maybeFail()
			if err := e.store.tidy(); err != nil && !errors.Is(err, errInjected) && !isFull(err) {
				e.errorf("tidy: %v", err)
			}
		default:
			e.maybeFail()
			e.step()
		}
		e.failing = 0
		if !t.Failed() {
			e.compare()
		}
	}
}

func (e *explorer) errorf(format string, args ...any) {
	e.t.Errorf("seed %d, step %d, %s: %s", e.seed, e.steps, e.doing, fmt.Sprintf(format, args...))
}

// accept sets what a loss of power may leave.
func (e *explorer) accept(models ...*model) {
	e.accepted, e.prints = models, nil
	for _, m := range models {
		e.prints = append(e.prints, m.print())
	}
}

// errInjected is what a change fails with: errFault, or errNoRoom, with which a write writes a part.
var (
	errInjected = errors.New("a fault of the test")
	errFault    = fmt.Errorf("%w: %w", errInjected, syscall.EIO)
	errNoRoom   = fmt.Errorf("%w: %w", errInjected, syscall.ENOSPC)
)

func (e *explorer) maybeFail() {
	if e.rnd.IntN(12) == 0 {
		e.failing = 1 + e.rnd.IntN(4)
	}
}

// step makes a random step.
func (e *explorer) step() {
	now := e.accepted[0]
	next := now.next(e.rnd)
	e.doing = next.name
	before, changes := e.accepted, e.changes
	e.accept(append(append([]*model{}, before...), next.after)...)
	err := next.call(e.store)
	if err == nil && e.changes == changes { // it settles nothing that is in doubt
		if next.after.print() != before[0].print() {
			e.errorf("it is acknowledged, and nothing was written")
		}
		e.accept(before...)
		return
	}
	e.faulty = err != nil
	switch {
	case err == nil:
		e.accept(next.after)
	case !errors.Is(err, reprise.ErrUnavailable):
		e.errorf("%v", err)
	}
}

// reopen opens a store on the disk as programs see it.
func (e *explorer) reopen() {
	e.doing += ", open"
	e.maybeFail()
	e.faulty = false
	var err error
	for range 2 {
		if e.store, err = open(e.disk, exploreOptions()); err == nil || !errors.Is(err, errInjected) {
			break
		}
		e.failing = 0
	}
	if err != nil {
		e.errorf("open: %v, on%v", err, e.disk)
		e.t.FailNow()
	}
	got, err := printStore(e.store)
	for i, want := range e.prints {
		if err == nil && got == want { // what was in doubt is settled
			e.accept(e.accepted[i])
			return
		}
	}
	e.errorf("after it was opened: %v, %s", err, difference(got, e.prints))
	e.t.FailNow()
}

// compare compares the store with the model.
func (e *explorer) compare() {
	if got, err := printStore(e.store); err != nil || got != e.prints[0] {
		e.errorf("%v, %s", err, difference(got, e.prints[:1]))
	}
}

// change is called before each change of the disk.
func (e *explorer) change(call, name string) error {
	e.changes++
	e.crash()
	if name == tmpName && call == "write" && !e.nested {
		e.nested = true
		doing := e.doing
		for range e.rnd.IntN(4) {
			e.step()
		}
		e.doing, e.nested = doing, false
	}
	if e.failing > 0 && call != "remove" {
		if e.failing--; e.failing == 0 {
			if e.rnd.IntN(3) == 0 {
				return errNoRoom
			}
			return errFault
		}
	}
	return nil
}

// crash looks at the disks that a loss of power leaves now.
func (e *explorer) crash() {
	img := e.disk.image()
	units := img.units()
	if units <= 4 {
		for set := range 1 << units {
			e.verify(img.crash(func(i int) tear { return tear(set >> i & 1) }))
		}
	} else {
		for n := range units { // all before n, and all but n
			e.verify(img.crash(func(i int) tear { return boolTear(i < n) }))
			e.verify(img.crash(func(i int) tear { return boolTear(i != n) }))
		}
		e.verify(img.crash(func(int) tear { return whole }))
	}
	for range min(units, 4) {
		set := rand.New(rand.NewPCG(e.pick.Uint64(), 0))
		e.verify(img.crash(func(int) tear { return tear(set.IntN(4)) }))
	}
}

func boolTear(b bool) tear {
	if b {
		return whole
	}
	return none
}

// verify opens a store on a disk that a loss of power has left.
func (e *explorer) verify(d *simDisk) {
	if e.t.Failed() {
		return
	}
	e.states.Add(1)
	if e.pick.IntN(50) == 0 { // the power goes again while it is opened
		var images []*image
		d.before = func(string, string) error {
			images = append(images, d.image())
			return nil
		}
		defer func() {
			for _, img := range images {
				e.verify(img.crash(func(int) tear { return tear(e.pick.IntN(4)) }))
			}
		}()
	}
	s, err := open(d, exploreOptions())
	if err != nil {
		e.errorf("after a crash: %v, on%v", err, d)
		return
	}
	d.before = nil
	got, err := printStore(s)
	if err != nil || !slices.Contains(e.prints, got) {
		e.errorf("after a crash: %v, %s", err, difference(got, e.prints))
		return
	}
	if e.pick.IntN(2) == 0 {
		key := testKey(fmt.Sprint("after", e.pick.IntN(1000)))
		if _, err := s.Create(bg, reprise.StreamInfo{Key: key, Epoch: "e"}); err != nil {
			e.errorf("create after a crash: %v", err)
		}
		req := reprise.AppendRequest{
			Key: key, Epoch: "e", First: 1, Count: 1, Bytes: make([]byte, 100), Earliest: 1, Kept: 9,
		}
		if errs := s.Append(bg, []reprise.AppendRequest{req}); errs != nil {
			e.errorf("append after a crash: %v", errs[0])
		}
		got, _ = printStore(s)
	}
	again, err := open(d.settled(), exploreOptions())
	if err != nil {
		e.errorf("after a crash and another: %v, on%v", err, d)
		return
	}
	if then, err := printStore(again); err != nil || then != got {
		e.errorf("after another crash: %v, %s", err, difference(then, []string{got}))
	}
}

// difference tells what is there and is in none of the texts, and what is missing of each.
func difference(got string, wants []string) string {
	text := ""
	for i, want := range wants {
		text += fmt.Sprintf("\n\tagainst content %d:", i)
		for line := range strings.Lines(got) {
			if !strings.Contains(want, line) {
				text += "\n\t\ttoo much: " + line
			}
		}
		for line := range strings.Lines(want) {
			if !strings.Contains(got, line) {
				text += "\n\t\tmissing: " + line
			}
		}
	}
	return text
}
