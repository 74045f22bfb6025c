// Package logins records which logins have ended, so that copies of their cookies are invalid: at once on the server
// that was asked, and on the other replicas when they have read the record.
package logins

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/journal"
)

// Logins implements identity.Logins. It is safe for concurrent use.
type Logins struct {
	journal journal.Journal
	follows *journal.Follower

	mu    sync.Mutex
	lives map[string]*life
	purge int // size of lives at which those whose cookies have expired are forgotten
}

// life is that of a login, which ends with its context.
type life struct {
	ctx     context.Context // the life of a login
	end     context.CancelCauseFunc
	expires time.Time
}

// record is a line of the journal: a login that has ended, and until when its cookie would be good.
type record struct {
	ID      string    `json:"id"`
	Expires time.Time `json:"expires"`
}

// minPurge is the least number of logins before expired ones are looked for.
const minPurge = 1000

// streamKey is the stream of the logins that have ended on all replicas.
var streamKey = reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "identity:logins"}

// Stream is the Journal that the replicas of a store share, in a stream of log.
func Stream(log *reprise.Log) journal.Journal {
	return journal.In(log, streamKey, journal.Options{Type: "key"})
}

// Open reads the journal and follows it until Close.
func Open(ctx context.Context, from journal.Journal) (l *Logins, err error) {
	l = &Logins{journal: from, lives: map[string]*life{}, purge: minPurge}
	l.follows, err = journal.Open(ctx, from, journal.Sink{
		Begin: func() {}, // what has ended stays so, whatever a store has lost
		Take:  l.take,
		Ready: func() {},
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Close stops following the journal.
func (l *Logins) Close() {
	if l != nil {
		l.follows.Close()
	}
}

// Life implements identity.Logins.
func (l *Logins) Life(id string, expires time.Time) context.Context { return l.life(id, expires).ctx }

// End implements identity.Logins.
func (l *Logins) End(ctx context.Context, id string, expires time.Time) error {
	l.life(id, expires).end(identity.ErrRevoked) // here at once, whatever becomes of the record
	text, err := json.Marshal(record{id, expires})
	if err != nil {
		return err
	}
	return l.journal.Append(ctx, text)
}

// take is the Sink of the journal.
func (l *Logins) take(text []byte) {
	var r record
	if json.Unmarshal(text, &r) == nil && time.Now().Before(r.Expires) {
		l.life(r.ID, r.Expires).end(identity.ErrRevoked)
	}
}

// life finds or makes the life of a login.
func (l *Logins) life(id string, expires time.Time) *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.lives[id]; found != nil {
		return found
	}
	if len(l.lives) >= l.purge {
		now := time.Now()
		for id, old := range l.lives {
			if now.After(old.expires) {
				old.end(identity.ErrRevoked)
				delete(l.lives, id)
			}
		}
		l.purge = 2*len(l.lives) + minPurge
	}
	made := &life{expires: expires}
	made.ctx, made.end = context.WithCancelCause(context.Background())
	l.lives[id] = made
	return made
}
