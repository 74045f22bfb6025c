package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"reprise"
)

// A server gives its history another id when it is started and when it is promoted, and each stream keeps the id of its
// last append. Where the two differ events may be lost. Read, Append and Create have it decided then, by adopt.lua
// inside the server, whether the stream stays in its epoch. A stream that has ended stays: its end is its last event,
// so that no seq is given again.

// adoptRounds is how often a call has it decided: the server may be another one again.
const adoptRounds = 3

// errOtherServer: the server was started again, or another one promoted, time after time.
var errOtherServer = errors.New("the server changes all the time")

// history is what a server says of its history: its id, and whether it was a replica of another server before.
type history struct {
	id       string
	promoted bool
	master   bool
}

var errHistory = errors.New("the server does not say what its history is")

// parseHistory reads what INFO says of replication.
func parseHistory(answer *rueidis.RedisMessage) (h history, err error) {
	text, err := answer.ToString()
	if err != nil {
		return h, err
	}
	h.id = infoLine(text, "master_replid:")
	h.promoted = strings.Trim(infoLine(text, "master_replid2:"), "0") != ""
	h.master = infoLine(text, "role:") == "master"
	if h.id == "" {
		return h, errHistory
	}
	return h, nil
}

// infoLine is what stands behind a name with its colon, at the start of a line.
func infoLine(text, name string) string {
	_, after, _ := strings.Cut(text, "\n"+name)
	value, _, _ := strings.Cut(after, "\r")
	return value
}

// mayHaveLost reports whether it is to be decided if a stream goes on in its epoch. last is the history of the server
// at the last append.
func (s *Store) mayHaveLost(ctx context.Context, info *reprise.StreamInfo, last string, server *history) (bool, error) {
	switch {
	case last == server.id, info.End != nil:
		return false, nil
	case server.promoted:
		return true, nil
	}
	keeps, err := s.keepers.keeps(ctx, s, server.id)
	return !keeps, err
}

// keepers remembers of histories whether the start that they began with has kept all events, so that streams which
// nobody appends to are read in one round trip. An append asks again.
type keepers struct {
	mu   sync.Mutex
	byID map[string]bool
}

// mostKeepers bounds what is remembered. A server has one history, a cluster has one for each master.
const mostKeepers = 1024

func (k *keepers) keeps(ctx context.Context, s *Store, id string) (bool, error) {
	k.mu.Lock()
	keeps, known := k.byID[id]
	k.mu.Unlock()
	if known {
		return keeps, nil
	}
	keeps, err := s.restartKeeps(ctx)
	if err != nil {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID == nil || len(k.byID) >= mostKeepers {
		k.byID = map[string]bool{}
	}
	k.byID[id] = keeps
	return keeps, nil
}

// adopt has it decided what becomes of a stream for somebody who knows of no events.
func (s *Store) adopt(ctx context.Context, key reprise.StreamKey, epoch reprise.Epoch) error {
	keeps, err := s.restartKeeps(ctx)
	if err != nil {
		return err
	}
	said, err := s.run(ctx, adoptScript, 0, s.adoption(key, epoch, keeps, 0))[0].ToString()
	if err == nil && said == renewed {
		s.tellRenewed(key, epoch)
	}
	return err
}

// renewed is what adopt.lua answers for a stream that it has put into another epoch.
const renewed = "2"

// adoption is the arguments of adopt.lua. tail is the last event that the caller knows of.
func (s *Store) adoption(key reprise.StreamKey, epoch reprise.Epoch, keeps bool, tail uint64) call {
	kept := "0"
	if keeps {
		kept = "1"
	}
	return call{
		keys: []string{s.keys.state(key)},
		args: []string{s.publish, s.me, string(epoch), string(reprise.NewEpoch()), kept, decimal(tail)},
	}
}

func (s *Store) tellRenewed(key reprise.StreamKey, epoch reprise.Epoch) {
	s.opts.Logger.Warn("events of a stream may be lost: the server was started again, or another one promoted",
		"stream", key.String(), "epoch", string(epoch))
}
