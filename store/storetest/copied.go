package storetest

import (
	"fmt"
	"time"

	"reprise"
)

// copied creates a stream that existed in another store before, with tail as its last event.
func (e *env) copied(name string, tail uint64) *stream {
	return e.createInfo(reprise.StreamInfo{
		Key: key(name), Config: configs()["all"], Owner: reprise.Owner{Name: "a", Fence: 3}, Tail: tail,
	})
}

func createCopied(e *env) {
	for _, tail := range []uint64{1, 41, 1 << 40} {
		s := e.copied(fmt.Sprint("s/", tail), tail)
		s.same()
		s.read(tail-1, 1<<20)
		s.read(tail+1, 1<<20)
		for _, first := range []uint64{1, tail, tail + 2} {
			req := s.request(1)
			req.First = first
			s.refused(req, reprise.ErrConflict, fmt.Sprintf("at %d to a copied stream whose tail is %d", first, tail))
		}
		again := s.info
		again.Epoch, again.Tail, again.Owner = reprise.NewEpoch(), 7, reprise.Owner{}
		info, err := e.store.Create(e.ctx, again)
		e.noError(err, "create a copied stream again")
		e.sameInfo(info, s.state())
		s.append(3, 1, 2).same()
		s.read(tail, 1)
		s.read(tail+2, 1<<20)
		s.trim(tail + 4).same()
		s.append(1).same()
	}
	last := e.copied("s/last", 9)
	listed := e.list(reprise.ListQuery{AllNamespaces: true, Limit: 1})
	e.sameInfo(listed[0], last.state())
}

// copiedEnd returns the end of a stream that is copied after its end.
func copiedEnd() *reprise.End {
	return &reprise.End{Outcome: "exited", Time: now(), Expires: now().Add(time.Hour), Data: []byte(`{"code":0}`)}
}

func createCopiedEnded(e *env) {
	s := e.createInfo(reprise.StreamInfo{Key: key("s"), Tail: 41, End: copiedEnd()})
	s.same()
	s.refused(s.request(1), reprise.ErrEnded, "to a stream that was copied after its end")
	s.trim(42).same()
	e.listed(everything, s.state())
	info, err := e.store.Create(e.ctx, s.info)
	e.noError(err, "create it again")
	e.sameInfo(info, s.state())
}

func createCopiedProducers(e *env) {
	var kept []reprise.Producer
	for i := range reprise.MaxProducers {
		kept = append(kept, reprise.Producer{
			ID: fmt.Sprint("p", i), Epoch: 1 << 63, Seq: uint64(i), First: uint64(i + 1), Last: uint64(i + 1),
		})
	}
	want := reprise.StreamInfo{Key: key("s"), Tail: 64, Producers: kept}
	p := newProducersOf(e.createInfo(want))
	p.kept = kept
	p.same()
	p.send("new") // the oldest is forgotten
	p.send("p5")
	p.stream.same()
}

// createLineage creates a stream that was in the given number of epochs before.
func (e *env) createLineage(name string, epochs int) *stream {
	lineage := make([]reprise.Ancestor, epochs)
	for i := range lineage {
		lineage[i] = reprise.Ancestor{Epoch: reprise.NewEpoch(), Fork: uint64(i % 7)}
	}
	lineage[epochs-1].Fork = 1<<63 - 1
	return e.createInfo(reprise.StreamInfo{Key: key(name), Tail: 41, Lineage: lineage})
}

func createCopiedLineage(e *env) {
	var want []reprise.StreamInfo
	for _, epochs := range []int{1, 2, reprise.MaxLineage} {
		s := e.createLineage(fmt.Sprint("s/", epochs), epochs)
		s.same()
		s.append(2, 1).same()
		s.trim(43).same()
		info, err := e.store.Create(e.ctx, reprise.StreamInfo{Key: s.key, Epoch: reprise.NewEpoch(), Created: now()})
		e.noError(err, "create it again")
		e.sameInfo(info, s.state())
		want = append([]reprise.StreamInfo{s.state()}, want...)
	}
	e.listed(everything, want...)
	s := e.create("s/1/again")
	s.remove(reprise.RemoveSpec{})
	if s = e.create("s/1/again"); len(s.read(0, 0).Info.Lineage) > 0 {
		e.failf("a new stream has a lineage")
	}
}
