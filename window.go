package reprise

// Window returns the cursors of the window of a stream, from what List, a Reader or a
// Stream told of it: just before the first kept event, and just after the last one. It
// does no I/O.
func (l *Log) Window(info *StreamInfo) (earliest, tail Cursor) {
	tag := l.opts.Keys.cursorTags(info.Key, info.Epoch)[0]
	return Cursor{Seq: info.Earliest - 1, Epoch: info.Epoch, Tag: tag},
		Cursor{Seq: info.Tail, Epoch: info.Epoch, Tag: tag}
}
