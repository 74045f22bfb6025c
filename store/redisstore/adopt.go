package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"reprise"
)

// A server changes the id of its history when it starts and when it is promoted. Each stream records the id that was
// current at its last append. If the two ids differ, events may be lost. Read, Append and Create then run adopt.lua in
// the server, which decides whether the stream keeps its epoch. A stream that has ended keeps its epoch: the end is its
// last event, so no seq can be assigned twice.

// adoptRounds bounds the attempts of one call to adopt streams: the server may change again meanwhile.
const adoptRounds = 3

// errOtherServer is returned if the server restarts, or another one is promoted, during each of adoptRounds attempts.
var errOtherServer = errors.New("the server changes all the time")

// history describes the replication history of a server: its id, its role, and whether it was a replica of another
// server before.
type history struct {
	id       string
	promoted bool
	master   bool
}

var errHistory = errors.New("the server does not report its replication history")

// parseHistory parses the replication section of INFO.
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

// infoLine returns the value of the line of INFO that starts with name, which includes the colon.
func infoLine(text, name string) string {
	_, after, _ := strings.Cut(text, "\n"+name)
	value, _, _ := strings.Cut(after, "\r")
	return value
}

// mayHaveLost reports whether adopt.lua must decide if the stream keeps its epoch. last is the id of the server's
// history at the last append.
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

// keepers caches, for each history, whether the start that began it kept all events. A stream without new appends is
// then read in one round trip. An append asks the server again.
type keepers struct {
	mu   sync.Mutex
	byID map[string]bool
}

// mostKeepers bounds the number of cached histories. A server has one history, a cluster has one for each master.
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

// adopt runs adopt.lua for a caller that knows of no events of the stream.
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

// renewed is the answer of adopt.lua for a stream that it moved to another epoch.
const renewed = "2"

// adoption returns the arguments of adopt.lua. tail is the last event that the caller knows of.
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
