package reprise

// Waiting is how many calls wait for the next commit.
func (l *Log) Waiting() int {
	n := 0
	for i := range l.lanes {
		lane := &l.lanes[i]
		lane.mu.Lock()
		if lane.waiting != nil {
			n += len(lane.waiting.calls)
		}
		lane.mu.Unlock()
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

// SetMaxIdleStreams bounds the streams whose idleness a Log watches.
func SetMaxIdleStreams(l *Log, n int) { l.idle.max = n }
