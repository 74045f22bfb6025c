package api_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/identity"
	"reprise/store/memstore"
)

// farStore takes a while for everything that is asked of it, as one at the other end of a network does.
type farStore struct {
	reprise.Store
	away time.Duration
}

func (s *farStore) travel(ctx context.Context) {
	timer := time.NewTimer(s.away)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *farStore) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	s.travel(ctx)
	return s.Store.Create(ctx, info)
}

func (s *farStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	s.travel(ctx)
	return s.Store.Append(ctx, reqs)
}

func (s *farStore) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	s.travel(ctx)
	return s.Store.Read(ctx, key, after, maxBytes)
}

func (s *farStore) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	s.travel(ctx)
	return s.Store.List(ctx, q)
}

func (s *farStore) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	s.travel(ctx)
	return s.Store.Remove(ctx, key, spec)
}

// TestAnswersTakeTheSameTime: what is another's and what does not exist are refused after the same time, to 1 ms at the
// median of the differences of pairs, over a store that is so far away (3 ms) that one question more would show.
// Smaller differences are not looked for: processor time and caches differ by microseconds.
func TestAnswersTakeTheSameTime(t *testing.T) {
	if raced {
		t.Skip("the race detector blurs times: make test has a run without it")
	}
	v := newVictim(t, setup{
		store: &farStore{memstore.New(nil), 3 * time.Millisecond}, gate: identity.Options{Failures: 1 << 20},
	})
	_, stranger := v.key("stranger", "read", "publish", "run", "control")
	_, neighbour := v.key(reprise.DefaultTenant, "read:own-", "publish:own-", "run:own-", "control:own-")
	for name, show := range map[string]func(*http.Request){
		"a key of another tenant": bearer(stranger), "a key with another prefix": bearer(neighbour),
	} {
		for _, at := range attempts(t, "own-1") {
			names := at.varied == "" && strings.Contains(at.operation, "{") ||
				at.varied == "body execution" || at.varied == "body stream" || at.varied == "body interpreter"
			makes := at.operation == "PUT /v1/streams/{name}" // and others would find it
			if names && !makes && at.scope != "admin" && at.scope != "public" {
				v.takesTheSameTime(t, name, at, show, time.Millisecond)
			}
		}
	}
}

// takesTheSameTime asks in pairs, in turns the one first and the other, so that a busy machine slows both down. It asks
// for more pairs, which are added to those before, as long as the difference is too great: what differs always differs,
// and what differed by chance does not.
func (v *victimFixture) takesTheSameTime(t *testing.T, who string, at *attempt, show func(*http.Request),
	most time.Duration,
) {
	t.Helper()
	nobody := v.nobody()
	took := func(set *nameSet) (time.Duration, bool) {
		r := at.request(set)
		begun := time.Now()
		a := v.send(r, show)
		return time.Since(begun), a.status >= 300 || a.status == 204
	}
	var differences []time.Duration
	for _, pairs := range []int{7, 15, 31, 63, 127, 255} {
		for len(differences) < pairs {
			first, second, sign := &v.hidden, nobody, time.Duration(1)
			if len(differences)%2 == 1 {
				first, second, sign = nobody, &v.hidden, -1
			}
			one, refused := took(first)
			other, also := took(second)
			if !refused || !also {
				return // it made something of its own
			}
			differences = append(differences, sign*(one-other))
		}
		if median(differences).Abs() < most {
			return
		}
	}
	t.Errorf("%s, %s: what is there takes %v longer than what does not exist", who, at, median(differences))
}

func median(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2]
}
