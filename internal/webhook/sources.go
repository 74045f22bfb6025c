package webhook

import (
	"maps"
	"slices"
	"time"

	"reprise"
)

// position is just after an event of a stream.
type position struct {
	Epoch reprise.Epoch `json:"epoch"`
	Seq   uint64        `json:"seq"`
}

// Bounds of what one hook covers at a time.
const (
	// maxOpen is how many streams are followed.
	maxOpen = 2000
	// maxDone is how many that are over are remembered.
	maxDone = 5000
	// clockSlack is by how much the clocks of replicas may differ.
	clockSlack = 30 * time.Second
)

// sources are the streams that a hook covers: those that are followed, and the newest of those that are over.
type sources struct {
	// Since is when the newest known stream was created. Streams from Floor on that are not known are new.
	Since time.Time `json:"since"`
	Floor time.Time `json:"floor"`
	// Open are the positions by name, Done when streams were created, by name and first epoch.
	Open map[string]position  `json:"open,omitempty"`
	Done map[string]time.Time `json:"done,omitempty"`
}

func newSources(now time.Time) *sources {
	s := &sources{Since: now, Floor: now.Add(-clockSlack)}
	return s.filled()
}

// filled makes the maps that JSON leaves out.
func (s *sources) filled() *sources {
	if s.Open == nil {
		s.Open = map[string]position{}
	}
	if s.Done == nil {
		s.Done = map[string]time.Time{}
	}
	return s
}

// note moves the position of a stream, or notes that it is over.
func (s *sources) note(name string, at position, over bool, created time.Time) {
	if !over {
		s.Open[name] = at
		return
	}
	delete(s.Open, name)
	s.Done[doneKey(name, at.Epoch)] = created
}

func doneKey(name string, epoch reprise.Epoch) string { return name + "@" + string(epoch) }

// knows reports whether a stream was found before.
func (s *sources) knows(info *reprise.StreamInfo) bool {
	if _, open := s.Open[info.Key.Name]; open || info.Created.Before(s.Floor) {
		return true
	}
	if _, done := s.Done[doneKey(info.Key.Name, info.Epoch)]; done {
		return true
	}
	for _, before := range info.Lineage {
		if _, done := s.Done[doneKey(info.Key.Name, before.Epoch)]; done {
			return true
		}
	}
	return false
}

// scanned notes that all streams were looked at of which the newest was created at a time, and forgets those that
// cannot be taken for new ones any more.
func (s *sources) scanned(newest time.Time) {
	if newest.After(s.Since) {
		s.Since = newest
	}
	if floor := s.Since.Add(-clockSlack); floor.After(s.Floor) {
		s.Floor = floor
	}
	if len(s.Done) > maxDone {
		times := slices.SortedFunc(maps.Values(s.Done), time.Time.Compare)
		if floor := times[len(times)-maxDone]; floor.After(s.Floor) {
			s.Floor = floor
		}
	}
	maps.DeleteFunc(s.Done, func(_ string, created time.Time) bool { return created.Before(s.Floor) })
}
