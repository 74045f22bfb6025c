package apikey_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/apikey"
	"reprise/internal/identity"
	"reprise/internal/journal"
	"reprise/internal/quota"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var reader = apikey.Request{
	Name: "ci", Tenant: "acme", Scopes: []identity.Grant{{Scope: identity.ScopeRead, Prefix: "ci-"}},
}

func open(t *testing.T, journal journal.Journal, opts *apikey.Options) *apikey.Registry {
	t.Helper()
	r, err := apikey.Open(t.Context(), journal, opts)
	ok(t, err)
	t.Cleanup(r.Close)
	return r
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, r *apikey.Registry, q apikey.Request) (apikey.Key, string) {
	t.Helper()
	key, text, err := r.Add(t.Context(), q)
	ok(t, err)
	return key, text
}

// waitFor waits for what another goroutine brings about.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("condition not met within 20s: %s", what)
		}
	}
}

// refused reports whether a credential is refused as one that is not good.
func refused(r *apikey.Registry, text string) bool {
	_, err := r.Verify(context.Background(), text)
	return errors.Is(err, identity.ErrUnauthenticated)
}

func isRevoked(p *identity.Principal) bool { return p.Revoked.Err() != nil }

func TestKeyStandsForItsPrincipal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api-keys")
	r := open(t, journal.File(path), nil)
	key, text := add(t, r, reader)
	if !strings.HasPrefix(text, "rp_"+key.ID+"_") || len(text) != len("rp_"+key.ID+"_")+32 {
		t.Errorf("the text %q", text)
	}
	p, err := r.Verify(t.Context(), text)
	ok(t, err)
	if p.Tenant != "acme" || !p.MayOn(identity.ScopeRead, "ci-1") || p.MayOn(identity.ScopeRead, "x") ||
		p.May(identity.ScopeRun) || isRevoked(&p) {
		t.Errorf("principal %+v", p)
	}
	if again, err := r.Current(t.Context(), p.Credential); err != nil || again.Name != p.Name {
		t.Errorf("by credential: %+v, %v", again, err)
	}
	if again, err := r.Named(t.Context(), p.Tenant, p.Name); err != nil || again.Credential != p.Credential {
		t.Errorf("by name: %+v, %v", again, err)
	}
	if _, err := r.Named(t.Context(), "other", p.Name); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("by name in another tenant: %v", err)
	}
	kept, err := os.ReadFile(path)
	ok(t, err)
	if strings.Contains(string(kept), strings.TrimPrefix(text, "rp_"+key.ID+"_")) {
		t.Error("the secret is in the file")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestWrongKeyReturnsGuessError(t *testing.T) {
	r := open(t, journal.File(filepath.Join(t.TempDir(), "k")), nil)
	key, text := add(t, r, reader)
	for wrong, id := range map[string]string{
		"": "", "rp_": "", "rp__": "", "rp_none_0123": "", text[:len(text)-1]: key.ID, text + "0": key.ID,
		"rp_" + key.ID: key.ID, "rp_" + key.ID + "_" + strings.Repeat("0", 32): key.ID, strings.ToUpper(text): "",
	} {
		p, err := r.Verify(t.Context(), wrong)
		guess, isGuess := errors.AsType[*identity.GuessError](err)
		if !isGuess || guess.ID != id || !errors.Is(err, identity.ErrUnauthenticated) || p.Name != "" {
			t.Errorf("%q: %+v, %v", wrong, p, err)
		}
		if wrong != "" && strings.Contains(fmt.Sprint(err), wrong) {
			t.Errorf("the error shows %q", wrong)
		}
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	r := open(t, journal.File(filepath.Join(t.TempDir(), "k")), nil)
	for field, change := range map[string]func(*apikey.Request){
		"name":    func(q *apikey.Request) { q.Name = "a b" },
		"tenant":  func(q *apikey.Request) { q.Tenant = "a/b" },
		"scopes":  func(q *apikey.Request) { q.Scopes = nil },
		"expires": func(q *apikey.Request) { q.Expires = time.Now().Add(-time.Minute) },
	} {
		q := reader
		change(&q)
		_, _, err := r.Add(t.Context(), q)
		if got, _ := apikey.Field(err); got != field || !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, tenant := range []reprise.Tenant{reprise.SystemTenant, "reprise.audit"} {
		q := reader
		q.Tenant = tenant
		if _, _, err := r.Add(t.Context(), q); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("a key for the tenant %s: %v", tenant, err)
		}
	}
	if len(r.List()) != 0 {
		t.Errorf("kept: %+v", r.List())
	}
}

func TestRotationReplacesTheSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	r := open(t, journal.File(path), nil)
	key, old := add(t, r, reader)
	before, err := r.Verify(t.Context(), old)
	ok(t, err)
	_, text, err := r.Rotate(t.Context(), key.ID)
	ok(t, err)
	if !refused(r, old) || !isRevoked(&before) || !errors.Is(context.Cause(before.Revoked), identity.ErrRevoked) {
		t.Error("the old secret is still good")
	}
	after, err := r.Verify(t.Context(), text)
	ok(t, err)
	if after.Name != before.Name || isRevoked(&after) {
		t.Errorf("%+v after %+v", after, before)
	}
	if _, err := r.Current(t.Context(), before.Credential); err == nil {
		t.Error("what was issued for the old secret is still good")
	}
	r.Close()
	r = open(t, journal.File(path), nil) // all records come again, those before the rotation too
	if _, err := r.Verify(t.Context(), text); err != nil || !refused(r, old) {
		t.Errorf("after a restart: %v", err)
	}
}

func TestRevokedKeyStaysRevoked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	r := open(t, journal.File(path), nil)
	key, text := add(t, r, reader)
	_, other := add(t, r, reader)
	p, err := r.Verify(t.Context(), text)
	ok(t, err)
	for range 2 {
		revoked, err := r.Revoke(t.Context(), key.ID)
		if err != nil || revoked.Revoked == nil {
			t.Fatalf("%+v, %v", revoked, err)
		}
	}
	if !refused(r, text) || !isRevoked(&p) {
		t.Error("it is still good")
	}
	if _, _, err := r.Rotate(t.Context(), key.ID); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("rotated after that: %v", err)
	}
	if _, err := r.Revoke(t.Context(), "none"); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("one that does not exist: %v", err)
	}
	r.Close()
	if _, _, err := r.Add(t.Context(), reader); err == nil {
		t.Error("a key was made after Close")
	}
	r = open(t, journal.File(path), nil)
	if !refused(r, text) || refused(r, other) || len(r.List()) != 2 {
		t.Errorf("after a restart: %+v", r.List())
	}
}

func TestKeyExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, journal.File(filepath.Join(t.TempDir(), "k")), nil)
		defer r.Close()
		q := reader
		q.Expires = time.Now().Add(time.Hour)
		_, text := add(t, r, q)
		p, err := r.Verify(t.Context(), text)
		if err != nil || time.Until(p.Expires) > time.Hour || time.Until(p.Expires) < time.Hour-time.Second {
			t.Errorf("%v, %v", p.Expires, err)
		}
		time.Sleep(time.Hour) // of the bubble
		if _, err := r.Verify(t.Context(), text); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("after that: %v", err)
		}
		if _, isGuess := errors.AsType[*identity.GuessError](err); isGuess {
			t.Error("it is taken for a guess")
		}
	})
}

// A line that a crash has cut short was never acknowledged; one in the middle that cannot be read costs no other key.
func TestFileAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	r := open(t, journal.File(path), nil)
	_, first := add(t, r, reader)
	r.Close()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	ok(t, err)
	_, err = f.WriteString("garbage\n{\"id\":\"cut")
	ok(t, errors.Join(err, f.Close()))
	r = open(t, journal.File(path), nil)
	_, second := add(t, r, reader)
	r.Close()
	r = open(t, journal.File(path), nil)
	if refused(r, first) || refused(r, second) || len(r.List()) != 2 {
		t.Errorf("%+v", r.List())
	}
	ok(t, os.Chmod(path, 0o644))
	if _, err := apikey.Open(t.Context(), journal.File(path), nil); err == nil {
		t.Error("a file that others may read is taken")
	}
}

// replicas share one store.
type replicas struct {
	*testing.T
	hub  *shared.Hub
	down atomic.Bool // no append is kept
}

func newReplicas(t *testing.T) *replicas { return &replicas{T: t, hub: shared.New(memstore.New(nil))} }

// replica opens the keys of one of them; dead is the file of the revoked ones.
func (s *replicas) replica(dead string) *apikey.Registry {
	s.Helper()
	log, err := reprise.Open(s.Context(), &faultyStore{s.hub.Store(), &s.down}, &reprise.Options{SweepEvery: -1})
	ok(s.T, err)
	s.Cleanup(func() { ok(s.T, log.Close()) })
	return open(s.T, apikey.Stream(log), &apikey.Options{Revoked: dead})
}

// faultyStore keeps nothing while it is down.
type faultyStore struct {
	*shared.Store
	down *atomic.Bool
}

func (f *faultyStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if !f.down.Load() {
		return f.Store.Append(ctx, reqs)
	}
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = reprise.ErrUnavailable
	}
	return errs
}

func TestReplicasShareKeys(t *testing.T) {
	s := newReplicas(t)
	one, two := s.replica(""), s.replica("")
	key, text := add(t, one, reader)
	waitFor(t, "the other replica knows the key", func() bool { return !refused(two, text) })
	p, err := two.Verify(t.Context(), text)
	ok(t, err)
	_, rotated, err := one.Rotate(t.Context(), key.ID)
	ok(t, err)
	waitFor(t, "the rotation ends what is open at the other replica", func() bool { return isRevoked(&p) })
	if !refused(two, text) {
		t.Error("the old secret is still good there")
	}
	p, err = two.Verify(t.Context(), rotated)
	ok(t, err)
	_, err = one.Revoke(t.Context(), key.ID)
	ok(t, err)
	waitFor(t, "the revocation ends what is open at the other replica", func() bool { return isRevoked(&p) })
	if late := s.replica(""); !refused(late, text) || !refused(late, rotated) || !refused(two, rotated) {
		t.Error("a revoked key is good")
	}
}

// A store that has lost a revocation is told of it again by each replica that knows, after its restart too.
func TestLostRevocationIsRepeated(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%t", restarted), func(t *testing.T) {
			dead := filepath.Join(t.TempDir(), "revoked")
			s := newReplicas(t)
			one, two := s.replica(dead), s.replica("")
			key, text := add(t, one, reader)
			_, other := add(t, one, reader)
			_, err := one.Revoke(t.Context(), key.ID)
			ok(t, err)
			waitFor(t, "the other replica knows", func() bool { return refused(two, text) })
			two.Close() // it remembers nothing on its disk
			if restarted {
				one.Close()
			}
			ok(t, s.hub.Lose(t.Context(), apikey.JournalKey, 2)) // both keys are kept, the revocation is not
			if restarted {
				if naive := s.replica(""); refused(naive, text) {
					t.Fatal("the test has lost nothing")
				}
				one = s.replica(dead)
			}
			late := s.replica("")
			waitFor(t, "all know of the revocation", func() bool { return refused(one, text) && refused(late, text) })
			if refused(one, other) || refused(late, other) {
				t.Error("another key is gone")
			}
		})
	}
}

// A key whose record a store has lost is gone everywhere, and so is what it had opened.
func TestLostKeyIsGone(t *testing.T) {
	s := newReplicas(t)
	one := s.replica("")
	_, kept := add(t, one, reader)
	_, lost := add(t, one, reader)
	p, err := one.Verify(t.Context(), lost)
	ok(t, err)
	ok(t, s.hub.Lose(t.Context(), apikey.JournalKey, 1))
	waitFor(t, "the replica has read what is left", func() bool { return refused(one, lost) && isRevoked(&p) })
	if refused(one, kept) {
		t.Error("another key is gone")
	}
}

// A key is revoked at once where the store does not answer, and everywhere once it does.
func TestRevokeWithoutTheStore(t *testing.T) {
	s := newReplicas(t)
	dead := filepath.Join(t.TempDir(), "revoked")
	one, two := s.replica(dead), s.replica("")
	key, text := add(t, one, reader)
	waitFor(t, "the other replica knows the key", func() bool { return !refused(two, text) })
	s.down.Store(true)
	if _, err := one.Revoke(t.Context(), key.ID); !errors.Is(err, reprise.ErrUnavailable) {
		t.Errorf("revoked without the store: %v", err)
	}
	if !refused(one, text) {
		t.Error("the key is still good where it was revoked")
	}
	if text, err := os.ReadFile(dead); err != nil || !strings.HasPrefix(string(text), key.ID+".") {
		t.Errorf("remembered: %q, %v", text, err)
	}
	s.down.Store(false)
	waitFor(t, "the other replica knows of the revocation", func() bool { return refused(two, text) })
}

// TestLimitsAreChangedUnderTheSameText: what was opened goes on, and another registry of the same journal has the new
// limits.
func TestLimitsAreChangedUnderTheSameText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	r := open(t, journal.File(path), nil)
	key, text := add(t, r, reader)
	before, err := r.Verify(t.Context(), text)
	ok(t, err)
	limited, err := r.SetLimits(t.Context(), key.ID, quota.Limits{quota.Running: 3})
	if err != nil || limited.Limits[quota.Running] != 3 {
		t.Fatalf("%+v, %v", limited, err)
	}
	for _, replica := range []*apikey.Registry{r, open(t, journal.File(path), nil)} {
		now, err := replica.Verify(t.Context(), text)
		if err != nil || now.Limits[quota.Running] != 3 || now.Credential != before.Credential {
			t.Errorf("%+v, %v", now, err)
		}
	}
	if isRevoked(&before) {
		t.Error("what was opened before has ended")
	}
	if _, err := r.SetLimits(t.Context(), key.ID, quota.Limits{"walking": 1}); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("an unknown quota: %v", err)
	}
	// Changes at the same time never bring an older text back, or a revoked key.
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			_, err := r.SetLimits(context.Background(), key.ID, quota.Limits{quota.Running: int64(i)})
			if err != nil && !errors.Is(err, reprise.ErrConflict) {
				t.Error(err)
			}
		})
		group.Go(func() {
			if _, _, err := r.Rotate(context.Background(), key.ID); err != nil && !errors.Is(err, reprise.ErrConflict) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	_, newest, err := r.Rotate(t.Context(), key.ID)
	ok(t, err)
	if _, err := r.Verify(t.Context(), newest); err != nil || !refused(r, text) {
		t.Errorf("the newest text: %v; the first one is refused: %v", err, refused(r, text))
	}
	_, err = r.Revoke(t.Context(), key.ID)
	ok(t, err)
	if _, err := r.SetLimits(t.Context(), key.ID, nil); !errors.Is(err, reprise.ErrConflict) || !refused(r, newest) {
		t.Errorf("limits of a revoked key: %v", err)
	}
}

func TestManyKeys(t *testing.T) {
	r := open(t, journal.File(filepath.Join(t.TempDir(), "k")), nil)
	var group sync.WaitGroup
	texts := make([]string, 64)
	for i := range texts {
		group.Go(func() {
			var err error
			if _, texts[i], err = r.Add(context.Background(), reader); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	seen := map[string]bool{}
	for _, text := range texts {
		p, err := r.Verify(t.Context(), text)
		if err != nil || seen[p.Name] {
			t.Errorf("%+v, %v", p, err)
		}
		seen[p.Name] = true
	}
}

func BenchmarkVerify(b *testing.B) {
	r, err := apikey.Open(b.Context(), journal.File(filepath.Join(b.TempDir(), "k")), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	_, text, err := r.Add(b.Context(), reader)
	if err != nil {
		b.Fatal(err)
	}
	token, err := identity.NewToken("a-token-for-tests-0123456789")
	if err != nil {
		b.Fatal(err)
	}
	for name, credential := range map[string]string{"token": "a-token-for-tests-0123456789", "key": text} {
		b.Run(name, func(b *testing.B) {
			verifier := identity.Verifiers{token, r}
			for b.Loop() {
				if _, err := verifier.Verify(b.Context(), credential); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
