package storetest

import "reprise"

const (
	ruleLossSeqs  = "A Store that may have lost acknowledged events, for instance in a failover, must not assign their seqs again in the same epoch."
	ruleLossRenew = "When it detects the loss, at the next Read, Append or Create of the stream at the latest, it must put the stream into another epoch and add the old one to StreamInfo.Lineage, with the remaining tail as its fork; see StreamInfo.Renew."
	ruleLossOld   = "An append for the old epoch is refused with ErrNotFound."
	ruleLossKeeps = "The owner and the producers stay as they are kept."
)

var lossChecks = []check{
	{name: "found by Read", rule: ruleLossRenew, needs: loses, run: func(e *env) {
		s := e.create("s").append(3, 2)
		left := s.lose(func() { s.append(1, 4) })
		for _, after := range []uint64{0, left.tail, s.tail, 1 << 63} {
			page, err := e.store.Read(e.ctx, s.key, after, 1<<20)
			e.noError(err, "read after %d when events were lost", after)
			left.renewed(page.Info)
			left.consistent(&page, after, 1<<20)
		}
		left.same()
		left.append(2, 1).same()
	}},
	{name: "found by Append", rule: ruleLossSeqs, needs: loses, run: func(e *env) {
		s := e.create("s").append(3, 2)
		left := s.lose(func() { s.append(1, 4) })
		left.refused(left.request(1), reprise.ErrNotFound, "to the epoch in which events were lost, at the tail that is left")
		left.renewed(left.now())
		left.append(2, 1).same()
		left.trim(5).append(3).same()
	}},
	{name: "found by an Append after the lost events", rule: ruleLossOld, needs: loses, run: func(e *env) {
		s := e.create("s").append(3, 2)
		left := s.lose(func() { s.append(1, 4) })
		s.refused(s.request(1), reprise.ErrNotFound, "to the epoch in which events were lost, after them")
		left.renewed(left.now())
		s.refused(s.request(1), reprise.ErrNotFound, "to the epoch in which events were lost, once more")
		left.append(2, 1).same()
	}},
	{name: "found by Create", rule: ruleLossRenew, needs: loses, run: func(e *env) {
		s := e.create("s").append(3, 2)
		left := s.lose(func() { s.append(1, 4) })
		info, err := e.store.Create(e.ctx, s.info)
		e.noError(err, "create a stream that has lost events")
		left.renewed(info)
		left.same()
		left.append(2).same()
	}},
	{name: "owner and producers", rule: ruleLossKeeps, needs: loses, run: lossKeeps},
	{name: "several", rule: ruleLossRenew, needs: loses, run: func(e *env) {
		s := e.create("s").append(3, 2)
		for range 3 {
			left := s.lose(func() { s.append(1, 1) })
			left.renewed(left.now())
			s = left.append(1, 2)
			s.same()
		}
	}},
	{name: "bound", rule: ruleLossRenew, needs: loses, run: func(e *env) {
		s := e.createLineage("s", reprise.MaxLineage).append(3)
		left := s.lose(func() { s.append(2) })
		left.renewed(left.now())
		left.append(1).same()
	}},
	{name: "others", rule: ruleLossRenew, needs: loses, run: func(e *env) {
		var all []*stream
		for _, name := range []string{"a", "b", "c"} {
			all = append(all, e.create(name).append(2))
		}
		left := all[0].lose(func() { all[0].append(1) })
		left.refused(left.request(1), reprise.ErrNotFound, "to the epoch in which events were lost")
		left.renewed(left.now())
		for _, s := range all[1:] { // these may stay in their epoch, because they have lost nothing
			if info := s.now(); info.Epoch != s.epoch {
				s.lost = true
				s.renewed(info)
			}
			s.append(1).same()
		}
		left.append(1).same()
	}},
}

// lose makes the Store lose the appends of during. It returns the remaining stream, in the previous epoch.
func (s *stream) lose(during func()) (left *stream) {
	s.same()
	before := *s
	before.lost = true
	take, err := s.e.harness.Lose(s.e.store)
	s.e.noError(err, "prepare a loss")
	during()
	s.e.noError(take(), "lose events")
	return &before
}

// now returns the state of s in the Store, in any epoch.
func (s *stream) now() reprise.StreamInfo {
	page, err := s.e.store.Read(s.e.ctx, s.key, 1<<63, 0)
	s.e.noError(err, "read %s", s.key)
	return page.Info
}

// renewed checks that s is in another epoch because it has lost events, and continues in that epoch.
func (s *stream) renewed(info reprise.StreamInfo) {
	if s.lost {
		if info.Epoch == s.epoch {
			s.e.failf("%s: after a loss the epoch is the same: %s", s.key, describe(info))
		}
		is := s.state()
		is.Renew(info.Epoch)
		s.lost, s.epoch, s.info.Epoch, s.info.Lineage = false, is.Epoch, is.Epoch, is.Lineage
	}
	s.e.sameInfo(info, s.state())
}

func lossKeeps(e *env) {
	p := newProducersOf(e.createInfo(reprise.StreamInfo{Key: key("s"), Owner: owner("a", 3)}))
	p.send("x", "y")
	p.send("x")
	left := p.stream.lose(func() { p.stream.append(1) })
	left.renewed(left.now())
	p.stream = left
	p.same()
	req := left.request(1)
	req.Owner = owner("b", 2)
	left.refused(req, reprise.ErrFenced, "by an owner of before the loss")
	p.send("y", "z")
	left.same()
}
