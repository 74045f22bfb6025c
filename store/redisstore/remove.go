package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"reprise"
)

// Remove runs one script, and for a whole stream one more round trip for the lists. Removing a stream without a trace
// also deletes its mark, if there is one.
func (s *Store) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) (err error) {
	defer func() { err = storeError(ctx, err) }()
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	what := []string{"drop"}
	switch {
	case spec.Trim != 0:
		what = []string{"trim", decimal(spec.Trim), strconv.FormatInt(spec.Kept, 10), decimal(spec.Trim - 1)}
	case !spec.Remember.IsZero():
		what = []string{"mark", millis(spec.Remember)}
	}
	r := s.run(bounded, removeScript, s.opts.Wait, s.removal(key, spec.Epoch, what...))[0]
	st, found, err := removed(key, r)
	switch {
	case err != nil:
		return storeError(ctx, err)
	case !found && spec.Trim != 0:
		return reprise.ErrNotFound
	case st == nil || spec.Trim != 0:
		return nil
	}
	// If this fails, List detects the unused entry and deletes it.
	if err := s.delist(bounded, place{number: st.number, key: key}); err != nil {
		return storeError(ctx, err)
	}
	return storeError(ctx, s.forgetEnd(bounded, key, st.info.Epoch))
}

// removal returns the arguments of remove.lua.
func (s *Store) removal(key reprise.StreamKey, epoch reprise.Epoch, what ...string) call {
	return call{
		keys: []string{s.keys.state(key), s.keys.batches(key)},
		args: append([]string{s.publish, s.me, string(epoch)}, what...),
	}
}

// removed parses the answer of remove.lua. st is nil if nothing was removed; found reports whether the stream exists.
func removed(key reprise.StreamKey, r rueidis.RedisResult) (st *state, found bool, err error) {
	answer, err := r.ToArray()
	if err != nil {
		return nil, false, err
	}
	code, err := answer[0].ToString()
	if err != nil || code != "9" {
		return nil, code != "1", err
	}
	fields, err := answer[1].AsStrSlice()
	if err != nil {
		return nil, true, err
	}
	parsed, err := parseState(key, fields)
	return &parsed, true, err
}

// forgetEnd removes an epoch of a stream from the expiry queue.
func (s *Store) forgetEnd(ctx context.Context, key reprise.StreamKey, epoch reprise.Epoch) error {
	return s.client.Do(ctx,
		s.client.B().Zrem().Key(s.keys.ends()).Member(string(epoch)+":"+key.String()).Build()).Error()
}

// overdue is how long an entry of the queue without an ended stream is kept: the append of the end, or the creation of
// the stream, may still be under way.
const overdue = 10 * time.Minute
