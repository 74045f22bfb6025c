//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// faults returns the faults of all stores and those of the engine.
func (s *stage) faults() []fault {
	all := []fault{
		{"cut client connections", 6, func(s *stage) error { s.fronts[s.anyReplica()].Cut(); return nil }},
		{"stop server", 2, func(s *stage) error {
			r := s.replicas[s.anyReplica()]
			if err := r.signal(syscall.SIGSTOP); err != nil {
				return err
			}
			s.wait(1500)
			return r.signal(syscall.SIGCONT)
		}},
	}
	if s.engine.survivesKill() {
		all = append(all,
			fault{"kill server", 4, func(s *stage) error { return s.restart(syscall.SIGKILL) }},
			fault{"end server", 1, func(s *stage) error { return s.restart(syscall.SIGTERM) }},
		)
	}
	all = append(all, s.engine.faults()...)
	return slices.DeleteFunc(
		all,
		func(f fault) bool { return s.opts.faults != nil && !s.opts.faults.MatchString(f.name) },
	)
}

func (s *stage) anyReplica() int { return s.rnd.IntN(len(s.replicas)) }

// wait sleeps for a random time of at most so many milliseconds.
func (s *stage) wait(most int) { time.Sleep(time.Duration(1+s.rnd.IntN(most)) * time.Millisecond) }

func (s *stage) restart(sig syscall.Signal) error {
	r := s.replicas[s.anyReplica()]
	if err := r.end(sig); err != nil {
		return err
	}
	s.wait(200)
	return r.start()
}

// trouble injects one fault after the other until ctx is done. After half of the time it ends the streams that end
// early. Each fault occurs once before they are chosen at random. whole lasts longer than ctx.
func (s *stage) trouble(ctx, whole context.Context) error {
	all := s.faults()
	if len(all) == 0 {
		return fmt.Errorf("there is no such fault on %s", s.name)
	}
	order := s.rnd.Perm(len(all))
	deadline, _ := ctx.Deadline()
	half := time.Now().Add(time.Until(deadline) / 2)
	ended := false
	for n := 0; ctx.Err() == nil; n++ {
		pause(ctx, time.Duration(50+s.rnd.IntN(700))*time.Millisecond)
		f := s.choose(all)
		if n < len(order) {
			f = all[order[n]]
		}
		if !ended && time.Now().After(half) {
			ended = true
			s.enders.Go(func() { s.endEach(whole, true) })
		}
		at := time.Since(s.began)
		if err := f.do(s); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		s.ledger.count(f.name, 1)
		if s.opts.verbose {
			fmt.Printf(
				"%s at %v: %s, for %v\n",
				s.name,
				at.Round(time.Millisecond),
				f.name,
				(time.Since(s.began) - at).Round(time.Millisecond),
			)
		}
	}
	if !ended {
		s.enders.Go(func() { s.endEach(whole, true) })
	}
	return s.engine.restore()
}

// choose returns a random fault by weight.
func (s *stage) choose(all []fault) fault {
	sum := 0
	for _, f := range all {
		sum += f.weight
	}
	at := s.rnd.IntN(sum)
	for _, f := range all {
		if at -= f.weight; at < 0 {
			return f
		}
	}
	panic("no fault has a weight")
}
