package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"reprise"
)

// List reads names from a sorted set and then the states of those streams, in two round trips.
func (s *Store) List(ctx context.Context, q reprise.ListQuery) (_ reprise.ListPage, err error) {
	defer func() { err = storeError(ctx, err) }()
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return reprise.ListPage{}, err
	}
	defer leave()
	var before uint64
	if q.After != "" {
		before, err = strconv.ParseUint(q.After, 10, 64)
		if err != nil || before == 0 || decimal(before) != q.After {
			return reprise.ListPage{}, fmt.Errorf("%w: list after %.40q", reprise.ErrInvalid, q.After)
		}
	}
	if !listable(&q) && q.After == "" {
		return reprise.ListPage{}, nil
	}
	page, err := s.list(bounded, &q, before)
	if err != nil && !errors.Is(err, reprise.ErrInvalid) && !errors.Is(err, ErrDamaged) {
		err = storeError(ctx, err)
	}
	return page, err
}

func (s *Store) list(ctx context.Context, q *reprise.ListQuery, before uint64) (page reprise.ListPage, err error) {
	list := s.keys.listKey(q.Tenant, q.Namespace, q.AllNamespaces)
	for {
		// Ask for one more than the limit, which shows whether there are more.
		places, newest, err := s.places(ctx, list, before, q.Limit+1)
		if err != nil {
			return reprise.ListPage{}, err
		}
		if before > newest {
			return reprise.ListPage{}, fmt.Errorf("%w: list after %d, there were only %d streams",
				reprise.ErrInvalid, before, newest)
		}
		states, err := s.states(ctx, places, listFields)
		if err != nil {
			return reprise.ListPage{}, err
		}
		for i, st := range states {
			if st == nil {
				continue
			}
			if len(page.Streams) == q.Limit {
				return page, nil
			}
			page.Streams = append(page.Streams, st.info)
			page.Next = decimal(places[i].number)
		}
		if len(places) <= q.Limit {
			page.Next = ""
			return page, nil
		}
		before = places[len(places)-1].number
	}
}

// place is a member of a list: "<number>:<when in ms>:<tenant>/<name>", with the number as score.
type place struct {
	number uint64
	since  time.Time // when the place was added
	key    reprise.StreamKey
}

// places reads the members of a list before a number, or the newest ones if the number is 0. newest is the last number
// that was assigned.
func (s *Store) places(ctx context.Context, list string, before uint64, limit int) (
	places []place, newest uint64, err error,
) {
	from := "+inf"
	if before > 0 {
		from = "(" + decimal(before)
	}
	b := s.client.B()
	results := s.client.DoMulti(ctx, b.Get().Key(s.keys.number()).Build(),
		s.client.B().Zrange().Key(list).Min(from).Max("-inf").Byscore().Rev().Limit(0, int64(limit)).Build())
	if newest, err = results[0].AsUint64(); rueidis.IsRedisNil(err) {
		newest, err = 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	members, err := texts(results[1])
	if err != nil {
		return nil, 0, err
	}
	for _, m := range members {
		p, err := parsePlace(m)
		if err != nil {
			return nil, 0, err
		}
		places = append(places, p)
	}
	return places, newest, nil
}

func parsePlace(member string) (p place, err error) {
	parts := strings.SplitN(member, ":", 3)
	if len(parts) == 3 {
		var ms int64
		var nerr, merr error
		p.number, nerr = strconv.ParseUint(parts[0], 10, 64)
		ms, merr = strconv.ParseInt(parts[1], 10, 64)
		key, ok := parseKey(parts[2])
		if nerr == nil && merr == nil && ok {
			p.since, p.key = time.UnixMilli(ms), key
			return p, nil
		}
	}
	return p, fmt.Errorf("%w: %q in a list", ErrDamaged, member)
}

// states reads fields of the states of streams. The state is nil for a place without a stream: the stream was never
// created, or was removed. Such a place is deleted once it is too old to belong to a stream that is being created. A
// stream whose expiry is long overdue goes back into the expiry queue, because a failover may have lost its entry
// there.
func (s *Store) states(ctx context.Context, places []place, fields []string) ([]*state, error) {
	commands := make([]rueidis.Completed, len(places))
	for i, p := range places {
		commands[i] = s.client.B().Hmget().Key(s.keys.state(p.key)).Field(fields...).Build()
	}
	states := make([]*state, len(places))
	var old []place
	var late []rueidis.Completed
	for i, r := range s.client.DoMulti(ctx, commands...) {
		answer, err := r.ToMessage()
		if err != nil {
			return nil, err
		}
		st, err := parseValues(places[i].key, fields, &answer)
		switch {
		case errors.Is(err, ErrDamaged):
			s.opts.Logger.Error("a stream is passed over in lists and sizes", "error", err)
			continue
		case err != nil:
			return nil, err
		case st.number == places[i].number && !st.absent():
			states[i] = &st
		case time.Since(places[i].since) > overdue:
			old = append(old, places[i])
		}
		if states[i] != nil && st.expires > 0 && time.Since(time.UnixMilli(st.expires)) > overdue {
			late = append(late, s.noteEnd(st.info.Key, st.info.Epoch, st.expires))
		}
	}
	for _, r := range s.client.DoMulti(ctx, late...) {
		if err := r.Error(); err != nil {
			return nil, err
		}
	}
	return states, s.delist(ctx, old...)
}

// parseValues parses an answer with the values of fields.
func parseValues(key reprise.StreamKey, fields []string, answer *rueidis.RedisMessage) (state, error) {
	values, err := answer.ToArray()
	if err != nil {
		return state{}, err
	}
	pairs := make([]string, 0, 2*len(values))
	for i := range values {
		if values[i].IsNil() {
			continue
		}
		text, err := values[i].ToString()
		if err != nil {
			return state{}, err
		}
		pairs = append(pairs, fields[i], text)
	}
	return parseState(key, pairs)
}
