package reprise

// Waiting is how many calls wait for the next commit.
func (l *Log) Waiting() int {
	l.committer.mu.Lock()
	defer l.committer.mu.Unlock()
	if l.committer.waiting == nil {
		return 0
	}
	return len(l.committer.waiting.calls)
}
