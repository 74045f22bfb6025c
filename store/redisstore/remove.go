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
		return s.trim(bounded, ctx, key, &spec)
	case !spec.Remember.IsZero():
		what = []string{"mark", millis(spec.Remember)}
	}
	r := s.run(bounded, removeScript, s.opts.Wait, s.removal(key, spec.Epoch, what...))[0]
	st, err := removed(key, r)
	if st == nil || err != nil {
		return storeError(ctx, err)
	}
	// If this fails, List detects the unused entry and deletes it.
	if err := s.delist(bounded, place{number: st.number, key: key}); err != nil {
		return storeError(ctx, err)
	}
	return storeError(ctx, s.forgetEnd(bounded, key, st.info.Epoch))
}

// trim moves the start of the window. If the stream may have lost events, which spec.Kept then counts, it moves to
// another epoch first; a trim in the epoch before does nothing. asked is the caller's context.
func (s *Store) trim(ctx, asked context.Context, key reprise.StreamKey, spec *reprise.RemoveSpec) error {
	trusted, server := "", ""
	for range adoptRounds {
		code, err := s.tryTrim(ctx, key, spec, trusted, server)
		switch {
		case err != nil:
			return err
		case code == "1":
			return reprise.ErrNotFound
		case code != "5":
			return nil
		}
		got, err := s.view(ctx, asked, key, 0, 0)
		if err != nil {
			return err
		}
		doubtful, err := s.mayHaveLost(ctx, &got.page.Info, got.history, &got.server)
		if err != nil {
			return err
		}
		if !doubtful { // as Read, a trim leaves the history for an appender that may know of more events
			trusted, server = got.history, got.server.id
			continue
		}
		if err := s.adopt(ctx, key, got.page.Info.Epoch); err != nil {
			return err
		}
	}
	return errOtherServer
}

// tryTrim runs remove.lua. The history trusted counts as the one of the server whose history is the other one; another
// server may have taken its place.
func (s *Store) tryTrim(ctx context.Context, key reprise.StreamKey, spec *reprise.RemoveSpec, trusted, server string) (
	code string, err error,
) {
	r := s.run(ctx, removeScript, s.opts.Wait, s.removal(key, spec.Epoch,
		"trim", decimal(spec.Trim), strconv.FormatInt(spec.Kept, 10), decimal(spec.Trim-1), trusted, server))[0]
	return removalCode(r)
}

// removalCode returns the first part of the answer of remove.lua.
func removalCode(r rueidis.RedisResult) (string, error) {
	answer, err := r.ToArray()
	if err != nil {
		return "", err
	}
	return answer[0].ToString()
}

// removal returns the arguments of remove.lua.
func (s *Store) removal(key reprise.StreamKey, epoch reprise.Epoch, what ...string) call {
	return call{
		keys: []string{s.keys.state(key), s.keys.batches(key)},
		args: append([]string{s.publish, s.me, string(epoch)}, what...),
	}
}

// removed parses the answer of remove.lua. st is nil if nothing was removed.
func removed(key reprise.StreamKey, r rueidis.RedisResult) (st *state, err error) {
	answer, err := r.ToArray()
	if err != nil {
		return nil, err
	}
	code, err := answer[0].ToString()
	if err != nil || code != "9" {
		return nil, err
	}
	fields, err := answer[1].AsStrSlice()
	if err != nil {
		return nil, err
	}
	parsed, err := parseState(key, fields)
	return &parsed, err
}

// forgetEnd removes an epoch of a stream from the expiry queue.
func (s *Store) forgetEnd(ctx context.Context, key reprise.StreamKey, epoch reprise.Epoch) error {
	return s.client.Do(ctx,
		s.client.B().Zrem().Key(s.keys.ends()).Member(string(epoch)+":"+key.String()).Build()).Error()
}

// overdue is how long an entry of the queue without an ended stream is kept: the append of the end, or the creation of
// the stream, may still be under way.
const overdue = 10 * time.Minute
