package reprise_test

import (
	"testing"
	"time"

	"reprise"
)

// TestEndIsTheSameAfterARestart: what is told of the end comes from memory first and from the store later.
func TestEndIsTheSameAfterARestart(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{MaxAge: time.Hour})
		at := time.Date(2026, 11, 20, 10, 30, 0, 123_456_789, time.FixedZone("", 3600))
		_, err := s.End(t.Context(), "completed", reprise.Event{Time: at, Data: []byte("x")})
		check(t, err)
		before := *info(t, s).End
		check(t, log.Close())
		again, err := openLog(t, store, nil).Stream(t.Context(), named("s"))
		check(t, err)
		after := *info(t, again).End
		want := time.Date(2026, 11, 20, 9, 30, 0, 123_000_000, time.UTC)
		for _, end := range []reprise.End{before, after} {
			if !end.Time.Equal(want) || !end.Expires.Equal(want.Add(time.Hour)) || end.Outcome != "completed" || string(end.Data) != "x" {
				t.Errorf("%+v, want it at %v", end, want)
			}
		}
	})
}
