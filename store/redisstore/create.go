package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"reprise"
	"reprise/store/internal/driver"
)

// Create looks for the stream, assigns it a number, adds it to the lists and then creates it. Because of this order, a
// crash can leave a list entry without a stream, which List skips, but never a stream that is in no list.
func (s *Store) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	return s.createOrFind(ctx, &info, nil)
}

// CreateAppend creates a stream with its first batch, or finds it; see reprise.CreateAppender. The script that creates
// the stream adds the batch, so it takes as many round trips as Create.
func (s *Store) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	return s.createOrFind(ctx, &info, &first)
}

// createOrFind implements Create if first is nil, and CreateAppend otherwise.
func (s *Store) createOrFind(ctx context.Context, info *reprise.StreamInfo,
	first *reprise.AppendRequest,
) (_ reprise.StreamInfo, err error) {
	defer func() { err = storeError(ctx, err) }()
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	defer leave()
	var st state
	if info.Revision > 0 {
		st.info, err = s.configure(bounded, ctx, info)
	} else {
		st, err = s.create(bounded, info, first)
	}
	switch {
	case err == nil:
		return st.info, nil
	case errors.Is(err, reprise.ErrConflict), errors.Is(err, reprise.ErrNotFound), errors.Is(err, ErrDamaged):
		return reprise.StreamInfo{}, err
	}
	return reprise.StreamInfo{}, storeError(ctx, err)
}

func (s *Store) create(ctx context.Context, info *reprise.StreamInfo, first *reprise.AppendRequest) (
	st state, err error,
) {
	config, err := marshalConfig(info.Config)
	if err != nil {
		return st, err
	}
	st, there, err := s.lookUp(ctx, info.Key, config)
	if there || err != nil {
		return st, err
	}
	made := *info
	made.Earliest = info.Tail + 1
	if first != nil {
		made.Earliest, made.Tail, made.Bytes = max(1, first.Earliest), uint64(first.Count), first.Kept
		made.End, made.Producers = first.End, driver.Remember(nil, first.Producers)
	}
	number, err := s.enlist(ctx, &made)
	if err != nil {
		return st, err
	}
	args, err := s.createArgs(&made, first, config, number)
	if err != nil {
		return st, err
	}
	st, there, _, err = s.tryCreate(ctx, info.Key, args)
	if err == nil && !there {
		err = fmt.Errorf("%w: stream %s was not made", ErrDamaged, info.Key)
	}
	if st.number != number && (err == nil || errors.Is(err, reprise.ErrConflict)) {
		// Another caller created the stream first: remove the list entry that is now unused.
		return st, errors.Join(err, s.delist(ctx, place{number: number, key: info.Key}))
	}
	return st, err
}

// createArgs returns the arguments with which create.lua makes a stream.
func (s *Store) createArgs(info *reprise.StreamInfo, first *reprise.AppendRequest, config string,
	number uint64,
) ([]string, error) {
	end, err := marshalEnd(info.End)
	if err != nil {
		return nil, err
	}
	args := []string{config, s.publish, s.me, "", "", "", s.keysExpire(info.End)}
	if first != nil {
		args[3], args[4], args[5] = decimal(info.Tail)+"-0", head(first), rueidis.BinaryString(first.Bytes)
	}
	args = append(args,
		"c", config, "e", life(info.Epoch, info.Owner), "b", info.Created.UTC().Format(time.RFC3339Nano),
		"n", decimal(number), "s", decimal(info.Earliest), "t", decimal(info.Tail),
		"k", strconv.FormatInt(info.Bytes, 10))
	if end != "" {
		args = append(args, "x", end, "z", millis(info.End.Expires))
	}
	if len(info.Producers) > 0 {
		args = append(args, "p", marshalProducers(info.Producers))
	}
	if len(info.Lineage) > 0 {
		args = append(args, "l", marshalLineage(info.Epoch, info.Lineage))
	}
	return args, nil
}

// lookUp finds a stream with a configuration. A stream that may have lost events moves to another epoch first.
func (s *Store) lookUp(ctx context.Context, key reprise.StreamKey, config string) (st state, there bool, err error) {
	for range adoptRounds {
		var server history
		st, there, server, err = s.tryCreate(ctx, key, []string{config})
		if !there || err != nil {
			return st, there, err
		}
		doubtful, err := s.mayHaveLost(ctx, &st.info, st.history, &server)
		if !doubtful || err != nil {
			return st, true, err
		}
		if err := s.adopt(ctx, key, st.info.Epoch); err != nil {
			return st, true, err
		}
	}
	return st, true, errOtherServer
}

// tryCreate runs create.lua. there is false if args only look up the stream and it does not exist.
func (s *Store) tryCreate(
	ctx context.Context, key reprise.StreamKey, args []string,
) (st state, there bool, server history, err error) {
	c := call{keys: []string{s.keys.state(key), s.keys.batches(key)}, args: args}
	wait := 0
	if len(args) > 1 {
		wait = s.opts.Wait
	}
	answer, err := s.run(ctx, createScript, wait, c)[0].ToArray()
	if err != nil {
		return st, false, server, err
	}
	code, err := answer[0].ToString()
	switch {
	case err != nil:
		return st, false, server, err
	case code == "1":
		return st, false, server, nil
	case code == "4":
		return st, true, server, reprise.ErrConflict
	}
	fields, err := answer[1].AsStrSlice()
	if err != nil {
		return st, false, server, err
	}
	if st, err = parseState(key, fields); err == nil && len(answer) > 2 {
		server, err = parseHistory(&answer[2])
	}
	return st, true, server, err
}

// enlist assigns a number to a stream, adds the stream to the lists and, if it is made with its end, to the expiry
// queue.
func (s *Store) enlist(ctx context.Context, info *reprise.StreamInfo) (number uint64, err error) {
	lists := s.keys.lists(info.Key)
	c := call{
		keys: append([]string{s.keys.number(), s.keys.ends()}, lists[:]...),
		args: []string{strconv.FormatInt(time.Now().UnixMilli(), 10), info.Key.String()},
	}
	if info.End != nil {
		expires := strconv.FormatInt(ceilMillis(info.End.Expires), 10)
		c.args = append(c.args, expires, endingMember(info.Epoch, info.Key))
	}
	return s.run(ctx, listScript, 0, c)[0].AsUint64()
}

// delist removes streams from the lists.
func (s *Store) delist(ctx context.Context, places ...place) error {
	if len(places) == 0 {
		return nil
	}
	calls := make([]call, len(places))
	for i, p := range places {
		lists := s.keys.lists(p.key)
		calls[i] = call{keys: lists[:], args: []string{decimal(p.number), p.key.String()}}
	}
	for _, r := range s.run(ctx, delistScript, 0, calls...) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}

// keysExpire returns when the keys of an ended stream expire by themselves, in ms, or "" for never.
func (s *Store) keysExpire(end *reprise.End) string {
	if end == nil || s.opts.TTL == 0 {
		return ""
	}
	return strconv.FormatInt(ceilMillis(end.Expires.Add(s.opts.TTL)), 10)
}

// noteEnd adds an epoch of a stream to the expiry queue. expires is in ms.
func (s *Store) noteEnd(key reprise.StreamKey, epoch reprise.Epoch, expires int64) rueidis.Completed {
	return s.client.B().Zadd().Key(s.keys.ends()).ScoreMember().
		ScoreMember(float64(expires), endingMember(epoch, key)).Build()
}

// endingMember returns the entry of an epoch of a stream in the expiry queue; parseEnding is its inverse.
func endingMember(epoch reprise.Epoch, key reprise.StreamKey) string {
	return string(epoch) + ":" + key.String()
}
