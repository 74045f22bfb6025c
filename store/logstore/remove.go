package logstore

import (
	"context"
	"time"

	"reprise"
)

// Remove trims or removes a stream; see reprise.Store. Removing a stream without a trace also deletes its mark, if
// there is one.
func (s *Store) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) (err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return err
	}
	defer s.use.Leave()
	return s.commit(ctx, &change{purpose: toRemove, stage: func(g *group) error {
		if spec.Trim != 0 {
			return g.trim(key, &spec)
		}
		return g.remove(key, &spec)
	}})
}

func (g *group) trim(key reprise.StreamKey, spec *reprise.RemoveSpec) error {
	st := g.s.rouse(g.s.streams.find(key))
	if st == nil || st.mark {
		return reprise.ErrNotFound
	}
	if err := g.touch(st); err != nil {
		return err
	}
	earliest := min(spec.Trim, st.tail+1)
	if spec.Epoch != "" && spec.Epoch != st.epoch() || earliest <= st.earliest {
		return nil
	}
	g.add(record{kind: kindTrim, id: st.id, earliest: earliest, kept: spec.Kept})
	return nil
}

func (g *group) remove(key reprise.StreamKey, spec *reprise.RemoveSpec) error {
	st := g.s.rouse(g.s.streams.find(key))
	if st == nil {
		return nil
	}
	if err := g.touch(st); err != nil {
		return err
	}
	if st.mark {
		if !spec.Remember.IsZero() || spec.Epoch != "" {
			return nil
		}
	} else if spec.Epoch != "" && spec.Epoch != st.epoch() {
		return nil
	}
	g.add(record{kind: kindRemove, id: st.id, until: spec.Remember})
	return nil
}

// takeDue returns a stream that ends now, or a mark, for the goroutine that has the turn, and nil for what has another
// time now.
func (s *Store) takeDue(marks bool) func(due) *stream {
	return func(d due) *stream {
		if st := s.rouse(d.id); st != nil && s.counts(marks)(d) {
			return st
		}
		return nil
	}
}

// Sweep removes expired streams; see reprise.Sweeper. It takes O(log n) time for each. It deletes at most limit marks;
// the marks that remain have no effect.
func (s *Store) Sweep(ctx context.Context, now, remember time.Time, limit int) (_ []reprise.StreamInfo, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return nil, err
	}
	defer s.use.Leave()
	var swept []reprise.StreamInfo
	err = s.commit(ctx, &change{purpose: toRemove, stage: func(g *group) error {
		swept = nil
		due := append(s.queue.first(now, limit, s.takeDue(false)),
			s.marks.first(now, limit, s.takeDue(true))...)
		for _, st := range due {
			if st.group == g.number {
				return errLater
			}
		}
		for _, st := range due {
			r := record{kind: kindRemove, id: st.id}
			if !st.mark {
				r.until = remember
				info := st.info()
				info.Producers = nil
				swept = append(swept, info)
			}
			st.group = g.number
			g.add(r)
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return swept, nil
}
