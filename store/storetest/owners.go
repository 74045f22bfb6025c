package storetest

import (
	"fmt"
	"time"

	"reprise"
)

const (
	ruleCreateOwner = "Create makes the stream info.Key with info.Epoch, info.Config, info.Created and info.Owner."
	ruleTakeOver    = "An Owner with a higher Fence must become that of the stream in the same commit."
)

var ownerChecks = []check{
	{name: "kept", rule: ruleCreateOwner, run: ownersKept},
	{name: "refused", rule: ruleAppendRefused, run: ownersRefused},
	{name: "order", rule: ruleAppendRefused, run: ownersOrder},
	{name: "among others", rule: ruleAppendRefused, run: ownersAmongOthers},
	{name: "taken over", rule: ruleTakeOver, run: ownersTakenOver},
	{name: "taken over at the end", rule: ruleTakeOver, run: func(e *env) {
		s := e.owned("s", owner("a", 1)).append(2)
		old := *s
		s.owner = owner("b", 2)
		s.finish(now().Add(time.Hour)).same()
		old.refused(s.by(old.owner), reprise.ErrFenced, "by the old owner, after the new one has ended the stream")
		s.refused(s.request(1), reprise.ErrEnded, "by the owner, after the end")
	}},
	{name: "contested", rule: ruleTakeOver, run: func(e *env) { ownersContested(e, e) }},
	{name: "reopened", rule: ruleAppendAtomic, needs: persists, run: ownersReopened},
	{name: "crashed", rule: ruleAppendAtomic, needs: persists, run: ownersCrashed},
}

func owner(name string, fence uint64) reprise.Owner { return reprise.Owner{Name: name, Fence: fence} }

// owned creates a stream with an owner.
func (e *env) owned(name string, by reprise.Owner) *stream {
	return e.createInfo(reprise.StreamInfo{Key: key(name), Owner: by})
}

// by returns the append of the next event by an owner.
func (s *stream) by(o reprise.Owner) reprise.AppendRequest {
	req := s.request(1)
	req.Owner = o
	return req
}

func ownersKept(e *env) {
	var want []reprise.StreamInfo // newest first
	for _, o := range []reprise.Owner{owner("a", 1), owner("replica-k3v9.example_1", 1<<40), {}} {
		s := e.owned(fmt.Sprintf("s/%s/%d", "x"+o.Name, o.Fence), o)
		s.same()
		s.append(2, 1).same()
		again := s.info
		again.Epoch, again.Owner = reprise.NewEpoch(), owner("other", 9)
		info, err := e.store.Create(e.ctx, again)
		e.noError(err, "create a stream that has an owner again")
		e.sameInfo(info, s.state())
		s.trim(2).same()
		want = append([]reprise.StreamInfo{s.state()}, want...)
	}
	e.listed(everything, want...)
}

func ownersRefused(e *env) {
	s := e.owned("s", owner("b", 3)).append(2)
	for what, o := range map[string]reprise.Owner{
		"a lower fence":                   owner("b", 2),
		"the same fence and another name": owner("a", 3),
		"a name that begins alike":        owner("bb", 3),
		"no name":                         owner("", 3),
		"another case":                    owner("B", 3),
		"no owner":                        {},
		"the name alone":                  owner("b", 0),
	} {
		s.refused(s.by(o), reprise.ErrFenced, "by "+what)
		s.same()
	}
	s.append(1).same()

	free := e.create("free").append(1)
	free.refused(free.by(owner("a", 0)), reprise.ErrFenced, "by a name without a fence")
	free.same()
	free.send(free.by(owner("a", 1)))
	free.same()
	free.refused(free.by(reprise.Owner{}), reprise.ErrFenced, "by no owner")
	free.append(1).same()
}

// ownersOrder makes requests that violate several rules at once.
func ownersOrder(e *env) {
	at := func(req reprise.AppendRequest, first uint64) reprise.AppendRequest {
		req.First = first
		return req
	}
	s := e.owned("s", owner("b", 3)).append(2)
	foreign := at(s.by(owner("a", 1)), 9)
	foreign.Epoch = reprise.NewEpoch()
	s.refused(foreign, reprise.ErrNotFound, "in another epoch, by an old owner, at a wrong seq")
	s.refused(at(s.by(owner("a", 1)), 9), reprise.ErrFenced, "by an old owner, at a wrong seq")
	s.refused(at(s.by(owner("c", 4)), 9), reprise.ErrConflict, "by a new owner, at a wrong seq")
	s.same() // the new one has not taken it over
	s.append(1).finish(now().Add(time.Hour))
	s.refused(at(s.by(owner("a", 1)), 9), reprise.ErrFenced, "by an old owner, at a wrong seq, after the end")
	s.refused(at(s.by(s.owner), 9), reprise.ErrEnded, "by the owner, at a wrong seq, after the end")
	s.refused(s.by(owner("c", 4)), reprise.ErrEnded, "by a new owner, after the end")
	s.same()
}

func ownersAmongOthers(e *env) {
	kept, fenced, taken := e.owned("kept", owner("a", 1)), e.owned("fenced", owner("b", 2)),
		e.owned("taken", owner("a", 1))
	free := e.create("free")
	reqs := []reprise.AppendRequest{kept.request(2), fenced.by(owner("a", 1)), taken.by(owner("b", 2)), free.request(1)}
	errs := e.store.Append(e.ctx, reqs)
	if len(errs) != len(reqs) {
		e.failf("append to %d streams, one of which refuses: got %d errors, want one for each", len(reqs), len(errs))
	}
	for i, want := range []error{nil, reprise.ErrFenced, nil, nil} {
		e.wantError(errs[i], want, "append to %s among others", reqs[i].Key.Name)
	}
	kept.accepted(reqs[0])
	taken.accepted(reqs[2])
	free.accepted(reqs[3])
	for _, s := range []*stream{kept, fenced, taken, free} {
		s.same()
		s.append(1).same()
	}
}

func ownersTakenOver(e *env) {
	s := e.owned("s", owner("a", 1)).append(2)
	for _, next := range []reprise.Owner{owner("b", 2), owner("b", 3), owner("a", 17), owner("c", 1<<40)} {
		old := s.owner
		s.send(s.by(next))
		s.same()
		s.refused(s.by(old), reprise.ErrFenced, "by the owner before")
		s.append(2).same()
	}
	e.listed(everything, s.state())
	large := s.request(64 << 10) // a MiB
	large.Owner = owner("d", 1<<40+1)
	s.send(large)
	s.same()
	s.append(1).same()
}

// ownersContested lets several callers on two replicas take over a stream at once, with the same fence. One of them
// must succeed.
func ownersContested(one, other *env) {
	const callers = 8
	s := one.owned("s", owner("first", 1)).append(1)
	for fence := uint64(2); fence < 20; fence++ {
		var won [callers]bool
		one.concurrently(callers, func(i int) {
			mine := s.on(one)
			if i%2 == 1 {
				mine = s.on(other)
			}
			errs := mine.e.store.Append(one.ctx,
				[]reprise.AppendRequest{mine.by(owner(fmt.Sprint("caller-", i), fence))})
			if won[i] = errs == nil; !won[i] {
				one.wantError(errs[0], reprise.ErrFenced, "take over, too late")
			}
		})
		winners := 0
		for i := range won {
			if won[i] {
				winners++
				s.accepted(s.by(owner(fmt.Sprint("caller-", i), fence)))
			}
		}
		if winners != 1 {
			one.failf("%d of %d callers have taken the stream over with fence %d, want 1", winners, callers, fence)
		}
		s.same()
		s.on(other).same()
	}
}

func ownersReopened(e *env) {
	s, copied := e.owned("s", owner("a", 1)), e.copied("copied", 41)
	ended := e.createInfo(reprise.StreamInfo{Key: key("ended"), Tail: 7, End: copiedEnd(), Owner: owner("z", 2)})
	for fence := uint64(2); fence < 6; fence++ {
		e.reopen()
		for _, s := range []*stream{s, copied, ended} {
			s.same()
		}
		s.refused(s.by(owner("b", s.owner.Fence)), reprise.ErrFenced, "by another name, opened again")
		s.append(1)
		s.send(s.by(owner("c", fence)))
		copied.append(2)
	}
	e.reopen()
	s.same()
	s.refused(s.by(owner("a", 1)), reprise.ErrFenced, "by the first owner, opened again")
	e.listed(everything, ended.state(), copied.state(), s.state())
}

func ownersCrashed(e *env) {
	s, copied := e.owned("s", owner("a", 1)), e.copied("copied", 41)
	for fence := uint64(2); fence < 6; fence++ {
		s.send(s.by(owner("b", fence)))
		copied.append(1)
		e.noError(e.crash(), "crash")
		e.open()
		s.same()
		copied.same()
		s.refused(s.by(owner("a", fence)), reprise.ErrFenced, "by another name, after a crash")
		s.append(2).same()
	}
}
