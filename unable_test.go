package reprise_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// unable is a Store around one that has no ability.
type unable struct{ reprise.Store }

func (unable) Watch(reprise.StreamKey, func()) (func(), error) { return nil, errors.ErrUnsupported }

func (unable) Sweep(context.Context, time.Time, time.Time, int) ([]reprise.StreamInfo, error) {
	return nil, errors.ErrUnsupported
}

func (unable) Sizes(context.Context) (map[reprise.Tenant]reprise.Size, error) {
	return nil, errors.ErrUnsupported
}

// TestUnsupportedAbilitiesAreIgnored: a Store whose methods return ErrUnsupported is used like one without them.
func TestUnsupportedAbilitiesAreIgnored(t *testing.T) {
	log := openLog(t, unable{memstore.New(nil)},
		&reprise.Options{Retention: reprise.Retention{MaxAge: time.Nanosecond}, SweepEvery: -1})
	if log.Shared() {
		t.Error("a store that cannot be watched is taken for a shared one")
	}
	s := createOn(t, log, "s")
	_, err := s.Append(t.Context(), text("x"))
	check(t, err)
	sizes, err := log.Sizes(t.Context())
	if err != nil || sizes[reprise.DefaultTenant].Events != 1 {
		t.Errorf("sizes %v, %v", sizes, err)
	}
	_, err = s.End(t.Context(), "completed", reprise.Event{Time: time.Now().Add(-time.Hour)})
	check(t, err)
	result, err := log.Sweep(t.Context())
	if err != nil || result.Streams != 1 {
		t.Errorf("swept %+v, %v", result, err)
	}
}
