package reprise

import "time"

// Waiting is how many calls wait for the next commit.
func (l *Log) Waiting() int {
	n := 0
	for i := range l.lanes {
		lane := &l.lanes[i]
		if g := lane.waiting.Load(); g != nil {
			if last := g.last.Load(); last != nil && last != taken {
				n += last.place()
			}
		}
	}
	return n
}

// Cool drops all that is in memory of events.
func (l *Log) Cool() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lv := range l.streams {
		lv.mu.Lock()
		l.hotBytes.Add(-lv.cool())
		lv.mu.Unlock()
	}
	return nil
}

// StepClocks changes what the lanes of a Log have read from the wall clock, as if it was set since.
func (l *Log) StepClocks(by time.Duration) {
	for i := range l.lanes {
		l.lanes[i].clock.nanos += int64(by)
	}
}

// SetMaxIdleStreams bounds the streams whose idleness a Log watches.
func SetMaxIdleStreams(l *Log, n int) { l.idle.max = n }
