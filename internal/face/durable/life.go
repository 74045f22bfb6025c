package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/web"
)

// remove answers a DELETE. A stream that has forks keeps its name until the last of them is removed; its events go at
// once, since forks have copies.
func (a API) remove(x *web.Exchange) error {
	s, err := a.asked(x, identity.ScopeControl)
	if err != nil {
		return err
	}
	ctx := x.R.Context()
	forks, err := a.hasForks(ctx, s.Key())
	if err != nil {
		return err
	}
	if forks {
		_, err := s.Configure(ctx, func(config *reprise.StreamConfig) { config.Labels[removedLabel] = isTrue })
		if err == nil {
			err = s.Trim(ctx, s.info.Tail+1)
		}
		if err != nil {
			return err
		}
		return x.Done()
	}
	if err := a.drop(ctx, s); !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	return x.Done()
}

// drop removes a stream, and its source if that was removed before and has no other fork. It always returns an error:
// that the stream does not exist, if all went well.
func (a API) drop(ctx context.Context, s *stream) error {
	err := s.Remove(ctx)
	if err == nil {
		err = a.Log.Remove(ctx, forksOf(s.Key()))
	}
	if err == nil && s.meta.Fork != nil {
		source := reprise.StreamKey{Tenant: s.Key().Tenant, Name: nameOf(s.meta.Fork.From)}
		if _, err = a.find(ctx, source); errors.Is(err, errRemoved) || errors.Is(err, reprise.ErrNotFound) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return grants.NotFound(s.Key())
}

// forksOf returns the key of the stream that lists the forks of a stream, those that were refused or removed too.
func forksOf(key reprise.StreamKey) reprise.StreamKey {
	sum := sha256.Sum256([]byte(key.Name))
	return reprise.StreamKey{Tenant: key.Tenant, Name: "durable.forks:" + hex.EncodeToString(sum[:])}
}

// forkEntry is an event of that stream.
type forkEntry struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// addFork lists a fork that is about to be made.
func (a API) addFork(ctx context.Context, key reprise.StreamKey, f *fork, account string) error {
	source := reprise.StreamKey{Tenant: key.Tenant, Name: nameOf(f.From)}
	list, _, err := a.Log.Create(ctx, forksOf(source), reprise.StreamConfig{
		Labels: map[string]string{reprise.AccountLabel: account},
	})
	if err != nil {
		return err
	}
	data, err := json.Marshal(forkEntry{key.Name, f.ID})
	if err == nil {
		_, err = list.Append(ctx, reprise.Event{Type: "fork", Data: data, Format: reprise.FormatJSON})
	}
	return err
}

// hasForks reports whether a stream has forks that exist. It forgets those before the first one of them.
func (a API) hasForks(ctx context.Context, key reprise.StreamKey) (bool, error) {
	list, err := a.Log.Stream(ctx, forksOf(key))
	if errors.Is(err, reprise.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	reader, err := list.Reader(ctx, reprise.Earliest())
	if err != nil {
		return false, err
	}
	defer reader.Close()
	for {
		events, err := reader.Poll(ctx)
		if err != nil || events.Len() == 0 {
			return false, err
		}
		for e := range events.All() {
			var entry forkEntry
			if err := json.Unmarshal(e.Data, &entry); err != nil {
				return false, fmt.Errorf("fork %d of %s: %w", e.Seq, key, err)
			}
			exists, err := a.exists(ctx, reprise.StreamKey{Tenant: key.Tenant, Name: entry.Name}, entry.ID)
			if err != nil {
				return false, err
			}
			if exists {
				return true, list.Trim(ctx, e.Seq)
			}
		}
	}
}

// exists reports whether there is the fork of an id.
func (a API) exists(ctx context.Context, key reprise.StreamKey, id string) (bool, error) {
	on, err := a.Log.Stream(ctx, key)
	var info reprise.StreamInfo
	if err == nil {
		info, err = on.Info(ctx)
	}
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		return false, nil
	}
	var m meta
	expires := info.Config.Expires()
	if err != nil || json.Unmarshal(info.Config.Meta, &m) != nil || m.Fork == nil || m.Fork.ID != id {
		return false, err
	}
	return expires.IsZero() || time.Now().Before(expires), nil
}

// encode returns what is kept of a stream.
func (m *meta) encode() []byte {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}
