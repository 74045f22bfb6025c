package apikey_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"reprise/internal/apikey"
	"reprise/internal/identity"
	"reprise/internal/journal"
)

// TestLifeEndsWithTheKey: by revocation at another replica or by expiry, and not by rotation.
func TestLifeEndsWithTheKey(t *testing.T) {
	s := newReplicas(t)
	one, two := s.replica(""), s.replica("")
	key, _ := add(t, one, reader)
	name := key.Name + "." + key.ID
	waitFor(t, "the other replica knows the key", func() bool { _, err := two.Key(key.ID); return err == nil })
	lives := []context.Context{one.Life(key.Tenant, name), two.Life(key.Tenant, name)}
	others := []context.Context{
		two.Life(key.Tenant, "alice@corp"), two.Life("another", name), two.Life(key.Tenant, "x."+key.ID),
	}
	_, text, err := one.Rotate(t.Context(), key.ID)
	ok(t, err)
	waitFor(t, "the other replica knows the new text", func() bool { return !refused(two, text) })
	if lives[0].Err() != nil || lives[1].Err() != nil {
		t.Fatal("the rotation ends the life of the key")
	}
	_, err = one.Revoke(t.Context(), key.ID)
	ok(t, err)
	for _, life := range append(lives, one.Life(key.Tenant, name), s.replica("").Life(key.Tenant, name)) {
		<-life.Done()
		if err := context.Cause(life); !errors.Is(err, identity.ErrRevoked) {
			t.Errorf("the life ends with %v", err)
		}
	}
	for i, life := range others {
		if life.Err() != nil {
			t.Errorf("life %d of somebody else ends", i)
		}
	}
}

// TestLifeEndsWithALostKey: of a key that the store has lost.
func TestLifeEndsWithALostKey(t *testing.T) {
	s := newReplicas(t)
	one := s.replica("")
	_, _ = add(t, one, reader)
	lost, _ := add(t, one, reader)
	life := one.Life(lost.Tenant, lost.Name+"."+lost.ID)
	ok(t, s.hub.Lose(t.Context(), apikey.JournalKey, 1))
	<-life.Done()
}

func TestLifeEndsAtExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, journal.File(filepath.Join(t.TempDir(), "k")), nil)
		defer r.Close()
		q := reader
		q.Expires = time.Now().Add(time.Hour)
		key, _ := add(t, r, q)
		life := r.Life(key.Tenant, key.Name+"."+key.ID)
		time.Sleep(59 * time.Minute)
		if life.Err() != nil {
			t.Error("the life ends before the key expires")
		}
		<-life.Done()
		if err := context.Cause(life); !errors.Is(err, identity.ErrExpired) {
			t.Errorf("the life ends with %v", err)
		}
	})
}
