package client

import (
	"encoding/json"
	"time"

	"reprise"
	"reprise/internal/problem"
	"reprise/sse"
)

// disowns reports whether a block with data is not provably the server's: something in front of the server may insert
// blocks on each connection, with any id. Such a block neither ends the loop nor moves the cursor. event and err are
// what decodeFrame has made of it. A block that claims to be the server's and is damaged is not disowned.
func (t *track) disowns(frame *sse.Event, event *Event, err error) bool {
	c, cursorErr := reprise.ParseCursor(frame.ID)
	readable := cursorErr == nil
	if err != nil || !readable {
		var stamp stamp
		isJSON := json.Unmarshal(frame.Data, &stamp) == nil
		switch {
		case isJSON && stamp.Seq == 0 && event.Gap == nil: // every event of the server has a seq
			return true
		case frame.ID == "": // damaged, if it has what every event of the server has
			return stamp.Time.IsZero()
		case !readable && t.judges():
			return true
		case !readable:
			return err == nil && event.Gap == nil && stamp.Time.IsZero()
		case err != nil:
			return t.judges() && (!t.owns(c.Epoch) || t.known && c.Seq <= t.seq)
		}
	}
	switch {
	case !t.judges() || t.owns(c.Epoch):
		return false
	case event.Gap != nil: // it may be what brings a new epoch
		earliest, _ := reprise.ParseCursor(event.Gap.Earliest)
		return event.Gap.Code != string(problem.CodeEpochChanged) || earliest.Epoch != c.Epoch
	case c.Seq != event.Seq:
		return true
	}
	return !t.follows(event.Seq)
}

// stamp is what every event of the server has.
type stamp struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
}
