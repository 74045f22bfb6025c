package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"reprise"
)

// Outcome is the outcome of a slot.
type Outcome string

// The outcomes.
const (
	// Started means that the execution was started.
	Started Outcome = "started"
	// Skipped means that the execution of an earlier slot was still running.
	Skipped Outcome = "skipped"
	// Missed means that no replica ran the schedules. Count is the number of slots up to this one.
	Missed Outcome = "missed"
	// Failed means that the execution was refused.
	Failed Outcome = "failed"
)

// Slot is a moment at which a schedule was due, and its outcome.
type Slot struct {
	At      time.Time `json:"at"`
	Outcome Outcome   `json:"outcome"`
	// Execution is the id of the execution that was started or was still running.
	Execution string `json:"execution,omitempty"`
	Error     string `json:"error,omitempty"`
	Count     int    `json:"count,omitempty"`
	// Last is the id of the execution that was started last.
	Last string `json:"last,omitempty"`
}

const (
	historyNamespace = "schedule:"
	typeSlot         = "slot"
	typeClaim        = "claim"
)

// kept bounds the history of a schedule.
var kept = reprise.Retention{MaxEvents: 200, MaxBytes: 1 << 20}

func (s *Schedule) historyKey() reprise.StreamKey {
	return reprise.StreamKey{Tenant: s.Tenant, Name: historyNamespace + s.ID}
}

// claim takes over the history of a schedule and returns its newest slot, nil if there is none.
func (s *Schedules) claim(ctx context.Context, one *Schedule, owner reprise.Owner) (*reprise.Stream, *Slot, error) {
	st, _, err := s.log.Create(ctx, one.historyKey(), reprise.StreamConfig{Retention: kept})
	if err != nil {
		return nil, nil, err
	}
	if _, err := st.AppendWith(ctx, reprise.AppendOptions{Owner: owner}, reprise.Event{Type: typeClaim}); err != nil {
		return nil, nil, err
	}
	slots, err := read(ctx, st)
	if err != nil || len(slots) == 0 {
		return st, nil, err
	}
	return st, &slots[len(slots)-1], nil
}

// History returns the newest slots of a schedule, oldest first.
func (s *Schedules) History(ctx context.Context, one *Schedule) ([]Slot, error) {
	st, err := s.log.Stream(ctx, one.historyKey())
	if errors.Is(err, reprise.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return read(ctx, st)
}

func read(ctx context.Context, st *reprise.Stream) (slots []Slot, err error) {
	reader, err := st.Reader(ctx, reprise.Earliest())
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	for {
		events, err := reader.Poll(ctx)
		if _, moved := errors.AsType[*reprise.WindowError](err); moved {
			if err = reader.Seek(reprise.Earliest()); err == nil {
				continue
			}
		}
		if err != nil || events.Len() == 0 {
			return slots, err
		}
		for e := range events.All() {
			var slot Slot
			if e.Type == typeSlot && json.Unmarshal(e.Data, &slot) == nil {
				slots = append(slots, slot)
			}
		}
	}
}

// note records a slot.
func note(ctx context.Context, st *reprise.Stream, owner reprise.Owner, slot Slot) error {
	text, err := json.Marshal(slot)
	if err != nil {
		return err
	}
	_, err = st.AppendWith(ctx, reprise.AppendOptions{Owner: owner},
		reprise.Event{Type: typeSlot, Data: text, Format: reprise.FormatJSON})
	return err
}
