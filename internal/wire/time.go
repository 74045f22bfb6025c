// Package wire has the forms of values in JSON that the parts of the API share.
package wire

import (
	"encoding/json"
	"time"
)

// Time is written as RFC 3339 in UTC with milliseconds.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// MarshalJSON is the inverse of time.Time.UnmarshalJSON for whole milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.UTC().Format(timeLayout))
}

// At returns t in whole milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// Given returns t, or nil for nil.
func Given(t *time.Time) *Time {
	if t == nil {
		return nil
	}
	return new(At(*t))
}

// NonZero returns t, or nil for the zero time.
func NonZero(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return new(At(t))
}

// Links are where an object is found.
type Links struct {
	Self string `json:"self"`
}
