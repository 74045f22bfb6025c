// Package wire has the forms of values in JSON that the parts of the API share.
package wire

import "time"

// Time is written as RFC 3339 in UTC with milliseconds, and as null if it is zero.
type Time struct{ time.Time }

const timeLayout = `"2006-01-02T15:04:05.000Z07:00"`

// null is JSON that no reader changes.
var null = []byte("null")

// MarshalJSON is the inverse of time.Time.UnmarshalJSON for whole milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return null, nil
	}
	return t.UTC().AppendFormat(nil, timeLayout), nil
}

// At returns t in whole milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// Given returns t, or the zero Time for nil.
func Given(t *time.Time) Time {
	if t == nil {
		return Time{}
	}
	return At(*t)
}

// Links are where an object is found.
type Links struct {
	Self string `json:"self"`
}
