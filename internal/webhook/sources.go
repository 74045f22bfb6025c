package webhook

import (
	"maps"
	"slices"
	"time"

	"reprise"
)

// position is the position just after an event of a stream.
type position struct {
	Epoch reprise.Epoch `json:"epoch"`
	Seq   uint64        `json:"seq"`
}

// Bounds of the streams of one hook.
const (
	// maxOpen bounds the streams that are followed.
	maxOpen = 2000
	// maxDone bounds the ended streams that are remembered.
	maxDone = 5000
	// clockSlack is the largest tolerated difference between the clocks of replicas.
	clockSlack = 30 * time.Second
)

// sources are the streams that a hook covers: the followed ones and the newest of the ended ones.
type sources struct {
	// Since is the creation time of the newest known stream. Unknown streams created at Floor or later are new.
	Since time.Time `json:"since"`
	Floor time.Time `json:"floor"`
	// Open holds the positions by name, Done the creation times of ended streams by name and first epoch.
	Open map[string]position  `json:"open,omitempty"`
	Done map[string]time.Time `json:"done,omitempty"`
}

func newSources(now time.Time) *sources {
	s := &sources{Since: now, Floor: now.Add(-clockSlack)}
	return s.filled()
}

// filled allocates the maps that the JSON form omits.
func (s *sources) filled() *sources {
	if s.Open == nil {
		s.Open = map[string]position{}
	}
	if s.Done == nil {
		s.Done = map[string]time.Time{}
	}
	return s
}

// note moves the position of a stream, or marks the stream as ended.
func (s *sources) note(name string, at position, over bool, created time.Time) {
	if !over {
		s.Open[name] = at
		return
	}
	delete(s.Open, name)
	s.Done[doneKey(name, at.Epoch)] = created
}

func doneKey(name string, epoch reprise.Epoch) string { return name + "@" + string(epoch) }

// knows reports whether a stream is known.
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

// scanned records a complete scan, in which the newest stream was created at newest, and forgets streams that can no
// longer be mistaken for new ones.
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
