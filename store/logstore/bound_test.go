package logstore

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"reprise"
)

// TestStreamsAreBounded: at the limit new streams are refused with a quota, and nothing else. Marks make room, those
// that end first, also for many streams at once; and a store that has more than its limit opens.
func TestStreamsAreBounded(t *testing.T) {
	d, o := newSimDisk(), exploreOptions()
	o.SegmentBytes, o.MaxStreams = 64<<10, 1000
	s, err := open(d, o)
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string) error {
		_, err := s.Create(t.Context(), reprise.StreamInfo{Key: testKey(name), Epoch: "e"})
		return err
	}
	for n := range o.MaxStreams {
		if err := create(fmt.Sprint("s", n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("s0"); err != nil {
		t.Errorf("a stream that is there: %v", err)
	}
	if err := create("more"); !errors.Is(err, reprise.ErrQuota) {
		t.Errorf("one more than the limit: %v", err)
	}
	info := reprise.StreamInfo{Key: testKey("s0"), Epoch: "e"}
	appendTo(t, s, &info, 1, nil)
	for n := range 600 {
		spec := reprise.RemoveSpec{Remember: day(20 - n%2)}
		if err := s.Remove(t.Context(), testKey(fmt.Sprint("s", n)), spec); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("s1"); err != nil {
		t.Errorf("a stream in the place of its mark: %v", err)
	}
	_, err = s.Read(t.Context(), testKey("s2"), 0, 0)
	_, gone := s.Read(t.Context(), testKey("s3"), 0, 0)
	if !errors.Is(err, reprise.ErrExpired) || !errors.Is(gone, reprise.ErrNotFound) {
		t.Errorf("the mark that ends last: %v, and one that ends first: %v", err, gone)
	}
	var calls sync.WaitGroup
	for n := range 599 {
		calls.Go(func() {
			if err := create(fmt.Sprint("new", n)); err != nil {
				t.Errorf("stream %d in the place of a mark: %v", n, err)
			}
		})
	}
	calls.Wait()
	if err := create("more"); !errors.Is(err, reprise.ErrQuota) || s.streams.len() != o.MaxStreams {
		t.Errorf("%d streams, and one more: %v", s.streams.len(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.MaxStreams = 10
	if s, err = open(d, o); err != nil {
		t.Fatal(err)
	}
	if err := create("more"); !errors.Is(err, reprise.ErrQuota) || s.streams.len() != 1000 {
		t.Errorf("%d streams after it was opened, and one more: %v", s.streams.len(), err)
	}
}
