package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"reprise"
)

// TestKeysOfEndedStreamsExpire: with the parameter ttl, however a stream ends, and later if its expiry is moved. Keys
// of open streams, and of a store without it, do not.
func TestKeysOfEndedStreamsExpire(t *testing.T) {
	on := server(t)
	for _, ttl := range []time.Duration{0, time.Hour} {
		url := place(t, on)
		prefix := url[strings.LastIndex(url, "=")+1:]
		if ttl > 0 {
			url += "&ttl=" + ttl.String()
		}
		log := openLog(t, url)
		wantExpiry := func(name string, end *reprise.End) {
			t.Helper()
			want := "-1"
			if end != nil && ttl > 0 {
				want = strconv.FormatInt(end.Expires.Add(ttl).UnixMilli(), 10)
			}
			for _, part := range []string{"state", "batches"} {
				if got := command(t, on, "PEXPIRETIME", prefix+":{default/"+name+"}:"+part); got != want {
					t.Errorf("ttl %v: %s of %s expires at %s, want %s", ttl, part, name, got, want)
				}
			}
		}
		retention := reprise.StreamConfig{Retention: reprise.Retention{MaxAge: time.Hour}}
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
		s, _, err := log.Create(t.Context(), key, retention)
		must(t, err)
		_, err = s.Append(t.Context(), reprise.Event{Data: []byte("1")})
		must(t, err)
		wantExpiry("s", nil)
		_, err = s.End(t.Context(), "completed", reprise.Event{})
		must(t, err)
		info, err := s.Info(t.Context())
		must(t, err)
		wantExpiry("s", info.End)
		info, err = s.Configure(t.Context(), func(c *reprise.StreamConfig) { c.Retention.MaxAge = 3 * time.Hour })
		must(t, err)
		wantExpiry("s", info.End)

		at := reprise.CreateOptions{Events: []reprise.Event{{Data: []byte("1")}}, Outcome: "completed"}
		key.Name = "at-once"
		s, _, err = log.CreateWith(t.Context(), at, key, retention)
		must(t, err)
		info, err = s.Info(t.Context())
		must(t, err)
		wantExpiry("at-once", info.End)
	}
}
