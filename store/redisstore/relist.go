package redisstore

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"reprise"
)

// A stream and its list entries are written one after the other, and in a Redis Cluster they are usually on different
// servers. A server that is promoted may lack the newest entries while another one keeps their streams. It may also
// have a stream again whose entries were removed. Sizes therefore starts a search of all servers for streams that are
// in no list when the history of one of them has changed.
//
// A single server is searched too. It has the entry of each stream, because the entry is written before the state and
// removed after it. But if another server takes its place between the two writes of a creation, that one gets the
// state and may lack the entry.

// searches runs one search at a time, for as long as the Store is open.
type searches struct {
	busy    atomic.Bool
	stopped context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

func (r *searches) init() { r.stopped, r.stop = context.WithCancel(context.Background()) }

// close ends the search. No other one may be started.
func (r *searches) close() {
	r.stop()
	r.running.Wait()
}

// startSearch starts a search, unless one is running. The caller is between enter and leave.
func (s *Store) startSearch() {
	r := &s.searches
	if !r.busy.CompareAndSwap(false, true) {
		return
	}
	r.running.Go(func() {
		defer r.busy.Store(false)
		err := s.relist(r.stopped)
		if err != nil && r.stopped.Err() == nil { // such as of a server that refuses writes
			s.opts.Logger.Warn("redis could not be searched for streams that are in no list", "error", err)
		}
	})
}

// settled is the least age of a history for which the search is final. A stream whose creation was under way when the
// server was promoted exists by then, or never will.
const settled = time.Minute

// relist adds streams that are in no list to the lists, unless all masters were already searched since their histories
// began. A server that does not answer is searched by a later call.
func (s *Store) relist(ctx context.Context) error {
	began := time.Now()
	masters, err := s.masters(ctx)
	if err != nil {
		return err
	}
	seen, err := s.histories(ctx)
	if err != nil {
		return err
	}
	now, due := make(map[string]int64, len(masters)), false
	for id := range masters {
		at, known := seen[id]
		if !known {
			at = began.UnixMilli()
		}
		now[id] = at
		due = due || at != 0
	}
	if !due {
		return nil
	}
	if err := s.noteHistories(ctx, seen, now); err != nil {
		return err
	}
	for _, node := range masters {
		if done, err := s.search(ctx, node); !done || err != nil {
			return err
		}
	}
	searched := maps.Clone(now)
	for id, at := range now {
		if began.Sub(time.UnixMilli(at)) >= max(settled, 2*s.opts.Timeout) {
			searched[id] = 0
		}
	}
	return s.noteHistories(ctx, now, searched)
}

// masters returns the masters that answer, by the ids of their histories.
func (s *Store) masters(ctx context.Context) (map[string]rueidis.Client, error) {
	byID := map[string]rueidis.Client{}
	for addr, node := range s.client.Nodes() {
		node = pinnedClient{node}
		h, err := s.historyOf(ctx, node)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			s.opts.Logger.Debug("a server is not searched for streams that are in no list",
				"server", addr, "error", err)
		case h.master:
			byID[h.id] = node
		}
	}
	return byID, nil
}

func (s *Store) historyOf(ctx context.Context, node rueidis.Client) (history, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	answer, err := node.Do(ctx, node.B().Info().Section("replication").Build()).ToMessage()
	if err != nil {
		return history{}, err
	}
	return parseHistory(&answer)
}

// histories returns when each history was first seen, in ms, or 0 if the search in it is final.
func (s *Store) histories(ctx context.Context) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	return s.client.Do(ctx, s.client.B().Hgetall().Key(s.keys.histories()).Build()).AsIntMap()
}

// noteHistories replaces the noted histories if they have changed. If this is interrupted, or if two replicas do it at
// the same time, there is one more search.
func (s *Store) noteHistories(ctx context.Context, before, after map[string]int64) error {
	if maps.Equal(before, after) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	set := s.client.B().Hset().Key(s.keys.histories()).FieldValue()
	for id, at := range after {
		set = set.FieldValue(id, strconv.FormatInt(at, 10))
	}
	del := s.client.B().Del().Key(s.keys.histories()).Build()
	for _, r := range s.client.DoMulti(ctx, del, set.Build()) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}

// search relists the streams of one server. done is false if the server refuses to list its keys.
func (s *Store) search(ctx context.Context, node rueidis.Client) (done bool, err error) {
	for cursor := uint64(0); ; {
		var found []reprise.StreamKey
		cursor, found, err = s.scan(ctx, node, cursor)
		if refuses(err) {
			s.refused.Do(func() {
				s.opts.Logger.Warn("redis refuses SCAN: streams whose list entries a failover has lost stay in no list",
					"error", err)
			})
			return false, nil
		}
		if err == nil {
			err = s.relistSome(ctx, found)
		}
		if err != nil || cursor == 0 {
			return true, err
		}
	}
}

// refuses reports whether err means that the server does not let this user run the command, or does not have it. All
// other errors of a server pass, such as BUSY and CLUSTERDOWN.
func refuses(err error) bool {
	answer, is := rueidis.IsRedisErr(err)
	if !is {
		return false
	}
	// By the protocol the first word is the code. The driver takes the general one, ERR, away.
	code, _, _ := strings.Cut(answer.Error(), " ")
	return code == "NOPERM" || code == "unknown"
}

// scan returns some of the streams and marks on one server, and the cursor for the next call, 0 at the end.
func (s *Store) scan(ctx context.Context, node rueidis.Client, cursor uint64) (
	next uint64, found []reprise.StreamKey, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	before, after, _ := strings.Cut(s.keys.state(reprise.StreamKey{}), "/")
	page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(before+"*"+after).Count(sizePlaces).Type("hash").
		Build()).AsScanEntry()
	if err != nil {
		return 0, nil, err
	}
	for _, name := range page.Elements {
		name = strings.TrimSuffix(strings.TrimPrefix(name, before), after)
		if key, ok := parseKey(name); ok {
			found = append(found, key)
		}
	}
	return page.Cursor, found, nil
}

// relistSome adds the streams that are in no list to the lists, in three round trips.
func (s *Store) relistSome(ctx context.Context, found []reprise.StreamKey) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	places, err := s.placesOf(ctx, found)
	if err != nil {
		return err
	}
	calls := make([]call, len(places))
	for i, p := range places {
		lists := s.keys.lists(p.key)
		calls[i] = call{
			keys: append([]string{s.keys.number()}, lists[:]...),
			args: []string{decimal(p.number), strconv.FormatInt(time.Now().UnixMilli(), 10), p.key.String()},
		}
	}
	var moved []place
	var renumber []call
	relisted := 0
	for i, r := range s.run(ctx, relistScript, 0, calls...) {
		answer, err := r.AsIntSlice()
		if err != nil {
			return err
		}
		relisted += int(answer[1])
		if number := uint64(answer[0]); number != places[i].number {
			moved = append(moved, place{number: number, key: places[i].key})
			renumber = append(renumber, call{
				keys: []string{s.keys.state(places[i].key)}, args: []string{decimal(places[i].number), decimal(number)},
			})
		}
	}
	if relisted > 0 {
		s.opts.Logger.Warn("streams were in no list after a failover, and are listed again", "streams", relisted)
	}
	var unused []place
	for i, r := range s.run(ctx, renumberScript, 0, renumber...) {
		is, err := r.AsInt64()
		if err != nil {
			return err
		}
		if is == 0 { // another replica was faster, or the stream was removed
			unused = append(unused, moved[i])
		}
	}
	return s.delist(ctx, unused...)
}

// placesOf returns the numbers of the streams that exist.
func (s *Store) placesOf(ctx context.Context, found []reprise.StreamKey) (places []place, err error) {
	fields := []string{"e", "n"}
	commands := make([]rueidis.Completed, len(found))
	for i, key := range found {
		commands[i] = s.client.B().Hmget().Key(s.keys.state(key)).Field(fields...).Build()
	}
	for i, r := range s.client.DoMulti(ctx, commands...) {
		answer, err := r.ToMessage()
		if err != nil {
			return nil, err
		}
		st, err := parseValues(found[i], fields, &answer)
		switch {
		case errors.Is(err, ErrDamaged): // Check and List report it
		case err != nil:
			return nil, err
		case !st.absent() && st.number > 0:
			places = append(places, place{number: st.number, key: found[i]})
		}
	}
	return places, nil
}
