package reprise

// Shared reports whether other replicas may append to the streams of the Store.
func (l *Log) Shared() bool {
	_, ok := l.store.(Watcher)
	return ok
}
