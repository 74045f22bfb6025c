package pgstore

import (
	"context"
	"encoding/base64"
	"hash/fnv"
	"strings"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/store/internal/driver"
)

// hashChars is the length of a hash in a notification.
const hashChars = 8

// keyHash identifies a stream in notifications. Streams with the same hash wake each other's watchers, which is
// allowed.
type keyHash [hashChars]byte

type hashList []keyHash

func hashOf(key reprise.StreamKey) (out keyHash) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key.String()))
	var sum [8]byte
	base64.RawURLEncoding.Encode(out[:], h.Sum(sum[:0])[:hashChars*3/4])
	return out
}

const notifyStatement = `SELECT pg_notify($1, $2)`

// everyStream replaces the hashes if any stream may have changed. A payload must be shorter than 8,000 bytes.
const (
	everyStream = "*"
	mostHashes  = 7900/hashChars - 1
)

// notification returns the parameters of notifyStatement: the name of this replica followed by the hashes.
func (s *Store) notification(hashes hashList) *params {
	payload := make([]byte, 0, hashChars*(1+len(hashes)))
	payload = append(payload, s.name...)
	if len(hashes) > mostHashes {
		payload = append(payload, everyStream...)
	} else {
		for i := range hashes {
			payload = append(payload, hashes[i][:]...)
		}
	}
	return new(params).text(s.channel()).text(string(payload))
}

func (s *Store) channel() string { return "reprise " + s.opts.Schema }

// tell notifies others of streams that an earlier transaction changed. If it fails, their polling detects the changes.
func (s *Store) tell(list []reprise.StreamInfo) {
	if len(list) == 0 || s.opts.NoNotify {
		return
	}
	hashes := make(hashList, len(list))
	for i := range list {
		hashes[i] = hashOf(list[i].Key)
	}
	n := s.notification(hashes)
	if err := s.run(s.life, s.sql.notify, n, func() takeRow { return nil }); err != nil {
		s.opts.Logger.Warn("other replicas could not be notified", "error", err)
	}
}

// watch is one call of Watch.
type watch struct {
	key   reprise.StreamKey
	moved func()
	// seen is the result of the last poll; only the poller uses it.
	seen   polled
	looked bool
}

// watches are the active watches.
type watches struct {
	driver.Hub[keyHash, watch]
	// listening is true while notifications arrive.
	listening atomic.Bool
}

// Watch calls moved when another replica changes the stream; see reprise.Watcher. All watches of the Store share the
// listening connection and the poller.
func (s *Store) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	defer func() { err = storeError(context.Background(), err) }()
	if err := s.use.Enter(context.Background()); err != nil {
		return nil, err
	}
	defer s.use.Leave()
	return s.watches.Add(hashOf(key), &watch{key: key, moved: moved})
}

// told calls moved for the streams in a notification. own is the name of this replica, whose notifications are ignored.
func (w *watches) told(payload, own string) {
	from, hashes := payload[:min(hashChars, len(payload))], payload[min(hashChars, len(payload)):]
	if from == own {
		return
	}
	if strings.HasPrefix(hashes, everyStream) {
		w.all()
		return
	}
	for ; len(hashes) >= hashChars; hashes = hashes[hashChars:] {
		for _, one := range w.Of(keyHash([]byte(hashes[:hashChars]))) {
			one.moved()
		}
	}
}

// all calls moved of every watch.
func (w *watches) all() {
	for _, one := range w.All() {
		one.moved()
	}
}

// polled identifies a state of a stream; the zero value means that there is no stream.
type polled struct {
	id, earliest, tail, line int64
	revision                 string // in some form
}

const pollStatement = `SELECT r.place, s.id, s.earliest, s.tail, s.line::bigint,
		CASE WHEN substring(s.config FOR 13) = '{"revision":"' THEN substring(s.config FROM 14 FOR 21) END
	FROM unnest($1::text[]) WITH ORDINALITY AS r (key, place)
	JOIN {schema}.streams s ON s.key = r.key`

const (
	// pollMost is the number of streams that one statement polls.
	pollMost = 5000
	// The polling interval without notifications, and with them. With them, polling finds changes that notifications
	// missed.
	pollAlone, pollBeside = 100 * time.Millisecond, time.Second
	// pollShare limits the share of time spent on polling when very many streams are watched.
	pollShare = 5
)

// pollLoop polls all watched streams periodically until the Store is closed.
func (s *Store) pollLoop() {
	timer := time.NewTimer(pollAlone)
	defer timer.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-timer.C:
		}
		start := time.Now()
		list := s.watches.All()
		for len(list) > 0 && s.life.Err() == nil {
			n := min(len(list), pollMost)
			if s.poll(list[:n]) != nil {
				break // the listener logs the failure; the next poll finds the changes
			}
			list = list[n:]
		}
		every := s.opts.Poll
		switch {
		case every == 0 && s.watches.listening.Load():
			every = pollBeside
		case every == 0:
			every = pollAlone
		}
		timer.Reset(max(every, pollShare*time.Since(start)))
	}
}

// poll calls moved for streams that have changed. The first poll of a stream cannot tell whether it changed, and calls
// moved too.
func (s *Store) poll(list []*watch) error {
	now := make([]polled, len(list))
	p := new(params)
	p.texts(len(list), func(i int) string { return list[i].key.String() })
	err := s.run(s.life, s.sql.poll, p, func() takeRow {
		return func(row [][]byte) error {
			if i := int8Of(row[0]) - 1; i >= 0 && i < int64(len(now)) {
				now[i] = polled{int8Of(row[1]), int8Of(row[2]), int8Of(row[3]), int8Of(row[4]), string(row[5])}
			}
			return nil
		}
	})
	if err != nil {
		return err
	}
	for i, w := range list {
		if !w.looked || w.seen != now[i] {
			w.looked, w.seen = true, now[i]
			w.moved()
		}
	}
	return nil
}
