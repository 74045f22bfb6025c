package reprise

import "context"

// Waiting is how many calls wait for the next commit.
func (l *Log) Waiting() int {
	l.committer.mu.Lock()
	defer l.committer.mu.Unlock()
	if l.committer.waiting == nil {
		return 0
	}
	return len(l.committer.waiting.calls)
}

// HotBytes is what the events in memory take.
func (l *Log) HotBytes() int64 { return l.hotBytes.Load() }

// InMemory is how many streams are in memory.
func (l *Log) InMemory() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.streams)
}

// Cool drops all that is in memory of events.
func (l *Log) Cool() error {
	return l.exclusively(context.Background(), func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, lv := range l.streams {
			lv.mu.Lock()
			l.hotBytes.Add(-lv.cool())
			lv.mu.Unlock()
		}
		return nil
	})
}
