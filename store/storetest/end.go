package storetest

import (
	"time"

	"reprise"
)

const (
	ruleEnd       = "End is set if the last event of the batch is the end event."
	ruleProducers = "Producers are the idempotent appends in this batch, to be kept with the stream: each replaces the one with the same ID, and of more than MaxProducers the oldest must be forgotten."
)

var endChecks = []check{
	{name: "kept", rule: ruleEnd, run: func(e *env) {
		ends := map[string]reprise.End{
			"plain":    {Outcome: "completed", Time: now(), Expires: now().Add(time.Hour)},
			"data":     {Outcome: "exited", Time: now(), Expires: now(), Data: []byte(`{"exit_code":3}`)},
			"bytes":    {Outcome: "failed", Time: now(), Expires: now().Add(time.Hour), Data: []byte("\x00\xff'")},
			"long ago": {Outcome: "cancelled", Time: time.UnixMilli(1).UTC(), Expires: time.UnixMilli(2).UTC()},
			"far off":  {Outcome: "exited", Time: now(), Expires: time.Date(2200, 1, 2, 3, 4, 5, 6e6, time.UTC)},
		}
		for what, end := range ends {
			s := e.createKey(key("s"), reprise.StreamConfig{}).append(2)
			req := s.request(3)
			req.End = &end
			s.send(req)
			page := s.read(0, 1<<20)
			if !sameEnd(page.Info.End, &end) {
				e.failf("%s: End is %+v, want %+v", what, page.Info.End, end)
			}
			s.same()
			s.remove(reprise.RemoveSpec{})
		}
	}},
	{name: "first event", rule: ruleEnd, run: func(e *env) {
		e.create("s").finish(now().Add(time.Hour)).same()
	}},
	{name: "trimmed", rule: ruleEnd, run: func(e *env) {
		s := e.create("s").append(3).finish(now().Add(time.Hour))
		s.trim(4).same()
		s.trim(5).same()
	}},
}

var producerChecks = []check{
	{name: "kept", rule: ruleProducers, run: func(e *env) {
		s := newProducers(e)
		s.send("a", "b")
		s.send("c")
		s.send("a")
		s.send()
		s.send("b", "c", "d")
	}},
	{name: "values", rule: ruleProducers, run: func(e *env) {
		s := newProducers(e)
		s.add(reprise.Producer{ID: "largest", Epoch: 1<<64 - 1, Seq: 1<<64 - 1})
		s.add(reprise.Producer{ID: "large", Epoch: 1 << 63, Seq: 1<<63 + 1})
		s.add(reprise.Producer{ID: "zero"})
		s.add(reprise.Producer{ID: "\x00\xff'\"\n ;"})
		s.add(reprise.Producer{ID: string(make([]byte, 64))})
	}},
	{name: "oldest forgotten", rule: ruleProducers, run: func(e *env) {
		s := newProducers(e)
		for i := range reprise.MaxProducers + 10 {
			s.send(string(rune('0' + i)))
			if i%3 == 0 {
				s.send("again") // is never the oldest
			}
		}
		all := make([]string, reprise.MaxProducers)
		for i := range all {
			all[i] = string(rune('A' + i))
		}
		s.send(all...)
	}},
	{name: "kept with the end", rule: ruleProducers, run: func(e *env) {
		s := newProducers(e)
		s.send("a")
		s.stream.finish(now().Add(time.Hour))
		s.same()
		s.stream.trim(3)
		s.same()
	}},
}

// producers is a stream that idempotent producers append to.
type producers struct {
	stream *stream
	kept   []reprise.Producer
	seq    uint64
}

func newProducers(e *env) *producers { return &producers{stream: e.create("s")} }

func newProducersOf(s *stream) *producers { return &producers{stream: s} }

// send appends a batch with one append of each of ids, and checks the producers that the Store keeps.
func (p *producers) send(ids ...string) {
	batch := make([]reprise.Producer, len(ids))
	for i, id := range ids {
		p.seq++
		batch[i] = reprise.Producer{ID: id, Epoch: 7, Seq: p.seq}
	}
	p.add(batch...)
}

// add appends a batch of one event for each of appends.
func (p *producers) add(appends ...reprise.Producer) {
	req := p.stream.request(max(1, len(appends)))
	for i := range appends {
		a := &appends[i]
		a.First, a.Last = req.First+uint64(i), req.First+uint64(i)
		p.keep(*a)
	}
	req.Producers = appends
	p.stream.send(req)
	p.same()
}

func (p *producers) keep(a reprise.Producer) {
	kept := make([]reprise.Producer, 0, len(p.kept)+1)
	for _, k := range p.kept {
		if k.ID != a.ID {
			kept = append(kept, k)
		}
	}
	kept = append(kept, a)
	p.kept = kept[max(0, len(kept)-reprise.MaxProducers):]
}

func (p *producers) same() {
	e := p.stream.e
	got := p.stream.read(1<<63, 0).Info.Producers
	if len(got) != len(p.kept) {
		e.failf("%d producers are kept, want %d", len(got), len(p.kept))
	}
	for i := range got {
		if got[i] != p.kept[i] {
			e.failf("producer %d of %d is %+v, want %+v, the oldest first", i, len(got), got[i], p.kept[i])
		}
	}
}
