package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"reprise"
)

// Sweep removes streams that are in the expiry queue. Redis deletes marks itself, when their time has passed on its
// clock.
func (s *Store) Sweep(ctx context.Context, now, remember time.Time, limit int) (_ []reprise.StreamInfo, err error) {
	defer func() { err = storeError(ctx, err) }()
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	w := sweeping{store: s, ctx: bounded, now: now, remember: remember}
	for len(w.swept) < limit {
		more, err := w.some(limit - len(w.swept))
		if err != nil {
			// Streams that were removed must be reported; a later Sweep finds the others again.
			if len(w.swept) > 0 {
				return w.swept, nil
			}
			return nil, storeError(ctx, err)
		}
		if !more {
			break
		}
	}
	return w.swept, nil
}

// sweeping is the state of one call of Sweep.
type sweeping struct {
	store         *Store
	ctx           context.Context
	now, remember time.Time
	passed        int // entries at the head of the queue that stay there
	swept         []reprise.StreamInfo
}

// ending is an entry of the queue: "<epoch>:<tenant>/<name>", with End.Expires in ms as score.
type ending struct {
	member string
	due    float64
	epoch  reprise.Epoch
	key    reprise.StreamKey
}

// some sweeps up to limit streams. It reports whether there may be more.
func (w *sweeping) some(limit int) (more bool, err error) {
	s := w.store
	ms := strconv.FormatInt(w.now.UnixMilli(), 10)
	due, err := s.client.Do(w.ctx, s.client.B().Zrange().Key(s.keys.ends()).Min("-inf").Max(ms).Byscore().
		Limit(int64(w.passed), int64(limit)).Withscores().Build()).AsZScores()
	if err != nil || len(due) == 0 {
		return false, err
	}
	list := make([]ending, len(due))
	calls := make([]call, len(due))
	for i, z := range due {
		if list[i], err = parseEnding(z.Member, z.Score); err != nil {
			return false, err
		}
		calls[i] = s.removal(list[i].key, list[i].epoch, "sweep", millis(w.remember), ms)
	}
	var done []string
	var left []place
	for i, r := range s.run(w.ctx, removeScript, s.opts.Wait, calls...) {
		st, rerr := removed(list[i].key, r)
		switch {
		case rerr != nil:
			err = rerr
		case st != nil:
			st.info.Producers = nil
			w.swept = append(w.swept, st.info)
			left = append(left, place{number: st.number, key: list[i].key})
			done = append(done, list[i].member)
		case w.now.Sub(time.UnixMilli(int64(list[i].due))) > overdue:
			done = append(done, list[i].member) // the stream was removed, or has not ended after all
		default:
			w.passed++
		}
	}
	if err != nil {
		return false, err
	}
	return len(due) == limit, w.forget(done, left)
}

// forget removes members from the queue and places from the lists.
func (w *sweeping) forget(members []string, places []place) error {
	s := w.store
	if len(members) > 0 {
		err := s.client.Do(w.ctx, s.client.B().Zrem().Key(s.keys.ends()).Member(members...).Build()).Error()
		if err != nil {
			return err
		}
	}
	return s.delist(w.ctx, places...)
}

func parseEnding(member string, due float64) (ending, error) {
	epoch, name, _ := strings.Cut(member, ":")
	key, ok := parseKey(name)
	if !ok || epoch == "" {
		return ending{}, fmt.Errorf("%w: %q among those that expire", ErrDamaged, member)
	}
	return ending{member: member, due: due, epoch: reprise.Epoch(epoch), key: key}, nil
}
