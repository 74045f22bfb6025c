package storetest

import (
	"errors"
	"time"

	"reprise"
)

const (
	ruleRemoveIdempotent = "It must be idempotent: removing what is not there is no error, except that trimming a stream that does not exist returns ErrNotFound."
	ruleTrim             = "Trim, if not 0, removes the events with a lower seq, and nothing else."
	ruleTrimLower        = "It is at most the tail plus one; a lower value than the start of the window changes nothing."
	ruleRemember         = "Remember, if not zero, leaves a mark in place of the whole stream: until that time Read must answer ErrExpired, then ErrNotFound."
	ruleRemoveTrace      = "With neither Trim nor Remember the stream is gone without a trace."
	ruleRemoveEpoch      = "Epoch, if not \"\", makes the call do nothing for another epoch."
)

var removeChecks = []check{
	{name: "trim", rule: ruleTrim, run: func(e *env) {
		s, other := e.create("s").append(3, 4, 1, 8), e.create("s/other").append(9)
		for before := uint64(2); before <= s.tail+1; before++ {
			s.trim(before).same()
			s.read(before-2, 1)
		}
		other.same()
		s.append(2).trim(18).same()
	}},
	{name: "trim less", rule: ruleTrimLower, run: func(e *env) {
		s := e.create("s").append(3, 4).trim(5)
		for _, before := range []uint64{1, 4, 5} {
			s.remove(reprise.RemoveSpec{Trim: before, Kept: keptBytes(before, s.tail)})
			s.same()
		}
	}},
	{name: "trim an ended stream", rule: ruleTrim, run: func(e *env) {
		s := e.create("s").append(5).finish(now().Add(time.Hour))
		s.trim(3).same()
		s.refused(s.request(1), reprise.ErrEnded, "after a trim")
	}},
	{name: "trim nothing", rule: ruleRemoveIdempotent, run: func(e *env) {
		for _, spec := range []reprise.RemoveSpec{{Trim: 1}, {Trim: 1, Epoch: reprise.NewEpoch()}} {
			err := e.store.Remove(e.ctx, key("absent"), spec)
			e.wantError(err, reprise.ErrNotFound, "trim a stream that does not exist")
		}
	}},
	{name: "whole", rule: ruleRemoveTrace, run: func(e *env) {
		s := e.create("s").append(3, 4)
		others := []*stream{e.create("s/s").append(2), e.create("S").append(2), e.create("x:s").append(2)}
		s.remove(reprise.RemoveSpec{})
		s.gone(reprise.ErrNotFound)
		for _, o := range others {
			o.same()
		}
		e.listed(everything, others[2].state(), others[1].state(), others[0].state())
	}},
	{name: "again", rule: ruleRemoveIdempotent, run: func(e *env) {
		s := e.create("s").append(3)
		until := now().Add(time.Hour)
		for _, spec := range []reprise.RemoveSpec{
			{}, {Remember: until}, {Epoch: s.epoch}, {Epoch: s.epoch, Remember: until},
		} {
			s.remove(reprise.RemoveSpec{})
			s.remove(spec)
			s.gone(reprise.ErrNotFound)
		}
		s = e.create("s")
		for range 2 {
			s.remove(reprise.RemoveSpec{Remember: until, Epoch: s.epoch})
			s.gone(reprise.ErrExpired)
		}
	}},
	{name: "name used again", rule: ruleRemoveTrace, run: func(e *env) {
		for range 3 {
			old := e.create("s").append(3, 4).finish(now())
			old.remove(reprise.RemoveSpec{})
			s := e.create("s")
			s.same()
			old.refused(old.request(1), reprise.ErrNotFound, "to the epoch that was removed")
			s.append(1, 2).same()
			s.remove(reprise.RemoveSpec{})
		}
	}},
	{name: "epoch", rule: ruleRemoveEpoch, run: func(e *env) {
		s := e.create("s").append(3, 4)
		other := reprise.NewEpoch()
		for _, spec := range []reprise.RemoveSpec{
			{Epoch: other},
			{Epoch: other, Remember: now().Add(time.Hour)},
			{Epoch: other, Trim: 4, Kept: 4 * eventBytes},
		} {
			s.remove(spec)
			s.same()
		}
		s.remove(reprise.RemoveSpec{Epoch: s.epoch, Trim: 4, Kept: 4 * eventBytes})
		s.earliest = 4
		s.same()
		s.remove(reprise.RemoveSpec{Epoch: s.epoch})
		s.gone(reprise.ErrNotFound)
	}},
	{name: "remember", rule: ruleRemember, run: func(e *env) {
		short, long := e.create("short").append(1), e.create("long").append(1)
		until := now().Add(300 * time.Millisecond)
		short.remove(reprise.RemoveSpec{Remember: until})
		long.remove(reprise.RemoveSpec{Remember: now().Add(time.Hour)})
		e.forgets(short.key, until)
		long.gone(reprise.ErrExpired)
	}},
}

// forgets waits until a mark is deleted, which must not happen before its time.
func (e *env) forgets(k reprise.StreamKey, until time.Time) {
	e.until(func() bool {
		_, err := e.store.Read(e.ctx, k, 0, 1)
		if errors.Is(err, reprise.ErrNotFound) {
			if early := time.Until(until); early > 0 {
				e.failf("the mark of %s is forgotten %v before its time", k, early)
			}
			return true
		}
		e.wantError(err, reprise.ErrExpired, "read %s", k)
		return false
	}, "the mark is to be forgotten, its time has come")
}
