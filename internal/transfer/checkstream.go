package transfer

import (
	"bytes"

	"reprise"
)

// streamCheck is the check of one stream.
type streamCheck struct {
	*check
	key   reprise.StreamKey
	first reprise.StreamInfo // of the first page
	// after is the seq of the last event that was read.
	after uint64
	// window is the size of the batches that hold events of the window.
	window int64
	end    *reprise.Event // the end event, nil until it is found
	broken bool           // the stream as a whole cannot be checked
}

func (s *streamCheck) wrong(format string, args ...any) { s.check.wrong(s.key, format, args...) }

// page checks a page and reports whether to read another one.
func (s *streamCheck) page(page *reprise.Page) (more bool) {
	info := &page.Info
	if info.Key != s.key {
		s.wrong("it is answered with the stream %s", info.Key)
		s.broken = true
		return false
	}
	want := max(s.after+1, info.Earliest)
	if len(page.Batches) == 0 {
		if want <= info.Tail {
			s.wrong("events %d to %d are missing", want, info.Tail)
			s.broken = true
		}
		return false
	}
	for i := range page.Batches {
		b := &page.Batches[i]
		if !s.batch(b, want, info) {
			s.broken = true
			return false
		}
		want = b.Last() + 1
		s.after = b.Last()
	}
	return s.after < info.Tail
}

// batch checks a batch, which must contain the event want. It returns false if the batches after it cannot be checked.
func (s *streamCheck) batch(b *reprise.Batch, want uint64, info *reprise.StreamInfo) bool {
	switch {
	case b.Count < 1:
		s.wrong("a batch of %d events at event %d", b.Count, b.First)
		return false
	case b.First > want:
		s.wrong("events %d to %d are missing", want, b.First-1)
	case b.Last() < want, b.First < want && want != info.Earliest:
		s.wrong("the batch of events %d to %d comes where event %d should be", b.First, b.Last(), want)
		return false
	case b.Last() > info.Tail:
		s.wrong("a batch reaches to event %d, the tail is %d", b.Last(), info.Tail)
		return false
	}
	s.check.events.Add(int64(b.Last() - max(b.First, info.Earliest) + 1))
	s.check.bytes.Add(int64(len(b.Bytes)))
	s.window += int64(len(b.Bytes))
	if !s.opts.Opaque {
		s.records(b)
	}
	return true
}

// records checks the records in a batch.
func (s *streamCheck) records(b *reprise.Batch) {
	for e, err := range reprise.Records(*b) {
		if err != nil {
			s.wrong("the batch of events %d to %d: %v", b.First, b.Last(), err)
			return
		}
		switch {
		case s.end != nil:
			s.wrong("event %d comes after the end, which is event %d", e.Seq, s.end.Seq)
		case e.Type == reprise.TypeEnd:
			e.Data = bytes.Clone(e.Data)
			s.end = &e
		case e.Type == reprise.TypeGap:
			s.wrong("event %d is a gap, which is never stored", e.Seq)
		}
	}
}

// finish checks the stream as a whole after all of it was read.
func (s *streamCheck) finish(info *reprise.StreamInfo) {
	if info.Earliest < 1 || info.Earliest > info.Tail+1 {
		s.wrong("the window begins with event %d, the tail is %d", info.Earliest, info.Tail)
		return
	}
	if info.Epoch == "" {
		s.wrong("it has no epoch")
	}
	if info.Owner.Name == "" != (info.Owner.Fence == 0) {
		s.wrong("an owner %q with the fence %d", info.Owner.Name, info.Owner.Fence)
	}
	s.producers(info)
	if s.broken {
		return
	}
	if !s.opts.Opaque {
		s.endEvent(info)
		// A Log counts in steps, so the size may exceed the stored bytes but never be smaller. If others append during
		// the check, the pages belong to several windows.
		resting := info.Earliest == s.first.Earliest && info.Tail == s.first.Tail
		if resting && info.Bytes < s.window {
			s.wrong("%d bytes are kept, and it says %d", s.window, info.Bytes)
		}
	}
	if info.Kept() == 0 && info.Bytes != 0 {
		s.wrong("nothing is kept, and it says %d bytes", info.Bytes)
	}
}

// endEvent compares the end event with the end in the stream's StreamInfo.
func (s *streamCheck) endEvent(info *reprise.StreamInfo) {
	switch {
	case info.End == nil && s.end != nil:
		s.wrong("event %d is an end, and the stream has not ended", s.end.Seq)
	case info.End == nil || info.Kept() == 0:
	case s.end == nil:
		s.wrong("it has ended, and its last event is no end")
	case s.end.Seq != info.Tail:
		s.wrong("the end is event %d, the tail is %d", s.end.Seq, info.Tail)
	case !bytes.Equal(s.end.Data, info.End.Data):
		s.wrong("the end event has other data than the end of the stream")
	}
}

func (s *streamCheck) producers(info *reprise.StreamInfo) {
	if len(info.Producers) > reprise.MaxProducers {
		s.wrong("%d producers are remembered, %d at most should be", len(info.Producers), reprise.MaxProducers)
	}
	seen := map[string]bool{}
	for _, p := range info.Producers {
		if p.ID == "" || seen[p.ID] {
			s.wrong("the producer %q is there twice or has no name", p.ID)
		}
		seen[p.ID] = true
		if p.First < 1 || p.First > p.Last || p.Last > info.Tail {
			s.wrong("the producer %q appended events %d to %d, the tail is %d", p.ID, p.First, p.Last, info.Tail)
		}
	}
}
