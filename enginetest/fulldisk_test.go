package enginetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"reprise"
)

// fullDisk is a Store whose disk has room for bytes.
type fullDisk struct {
	reprise.Store
	bytes int64
	// refused is the number of appends that were refused. Removals wait for that of least.
	refused, least atomic.Int64
}

// refuses returns reprise.DiskFull if there is no room for more bytes.
func (f *fullDisk) refuses(ctx context.Context, more int64) error {
	sizes, err := f.Store.(reprise.Sizer).Sizes(ctx)
	for _, size := range sizes {
		more += size.Bytes
	}
	if more > f.bytes {
		return errors.Join(err, fmt.Errorf("%w: injected", reprise.DiskFull))
	}
	return err
}

func (f *fullDisk) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	more := int64(0)
	for i := range reqs {
		more += int64(len(reqs[i].Bytes))
	}
	if err := f.refuses(ctx, more); err != nil {
		f.refused.Add(int64(len(reqs)))
		return slices.Repeat([]error{err}, len(reqs))
	}
	return f.Store.Append(ctx, reqs)
}

func (f *fullDisk) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	for f.refused.Load() < f.least.Load() {
		runtime.Gosched()
	}
	return f.Store.Remove(ctx, key, spec)
}

func (f *fullDisk) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if err := f.refuses(ctx, 1); err != nil {
		return reprise.StreamInfo{}, err
	}
	return f.Store.Create(ctx, info)
}

// TestOldMakesRoomOnFullDisk: when the disk is what is full, the streams of the tenant go that ended first, before an
// append, a stream or an end is refused; open streams and those of other tenants lose nothing.
func TestOldMakesRoomOnFullDisk(t *testing.T) {
	disk := &fullDisk{Store: memory(t), bytes: 1 << 40}
	var removed []string
	log := openLog(t, disk, &reprise.Options{SweepEvery: -1, Hooks: &reprise.Hooks{
		RemovedEarly: func(key reprise.StreamKey, _ reprise.Size) { removed = append(removed, key.Name) },
	}})
	open := create(t, log, "open", reprise.Retention{})
	add(t, open, filler())
	foreign, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: "other", Name: "a"}, reprise.StreamConfig{})
	check(t, err)
	add(t, foreign, filler())
	end(t, foreign)
	for i := range 20 {
		fillAndEnd(t, log, fmt.Sprint(i))
	}
	disk.bytes = log.Usage().Bytes - 22*reprise.StreamOverhead - 100
	add(t, open, filler())
	if want := []string{"0"}; !slices.Equal(removed, want) {
		t.Errorf("an append has removed %q, want %q", removed, want)
	}
	if !isGone(t, log, "0") {
		t.Error("the stream is there")
	}
	for len(removed) < 2 {
		add(t, open, filler())
	}
	for n := 0; len(removed) < 3; n++ {
		create(t, log, fmt.Sprint("new", n), reprise.Retention{})
		add(t, open, filler())
	}
	if want := []string{"0", "1", "2"}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	disk.bytes = 0 // others have filled it
	if _, err := open.Append(t.Context(), filler()); !errors.Is(err, reprise.DiskFull) {
		t.Errorf("append to a disk that stays full: %v", err)
	}
	_, err = log.Stream(t.Context(), reprise.StreamKey{Tenant: "other", Name: "a"})
	check(t, err)
	disk.bytes = 1 << 40
	if got := kept(t, open); len(got) == 0 || got[0].Seq != 1 {
		t.Errorf("the open stream keeps %d events", len(got))
	}
	add(t, open, filler())
}

// TestFullDiskRemovesOnce: appends that find the disk full at the same time remove ended streams once for all.
func TestFullDiskRemovesOnce(t *testing.T) {
	const writers = 8
	disk := &fullDisk{Store: memory(t), bytes: 1 << 40}
	removed := 0
	log := openLog(t, disk, &reprise.Options{SweepEvery: -1, Hooks: &reprise.Hooks{
		RemovedEarly: func(reprise.StreamKey, reprise.Size) { removed++ },
	}})
	var streams []*reprise.Stream
	for i := range writers {
		streams = append(streams, create(t, log, fmt.Sprint("open", i), reprise.Retention{}))
	}
	for i := range 40 {
		fillAndEnd(t, log, fmt.Sprint(i))
	}
	disk.bytes = log.Usage().Bytes - (40+writers)*reprise.StreamOverhead - 100
	disk.least.Store(writers)
	var all sync.WaitGroup
	for _, s := range streams {
		all.Go(func() { add(t, s, text("x")) })
	}
	all.Wait()
	if removed != 1 {
		t.Errorf("%d streams were removed for %d small events", removed, writers)
	}
}
