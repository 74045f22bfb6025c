package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/redisstore"
)

// What is wrong with a URL is told at once, and never with the password.
func TestURLs(t *testing.T) {
	on := server(t)
	login := strings.Replace(on.URL(), "redis://", "redis://user:hunter2@", 1)
	for _, url := range []string{
		"", "redis", "http://" + on.Addr(), "redis://:hunter2@%zz", "redis://user:hunter2@127.0.0.1:port",
		login + "/x", login + "/1/2",
		on.URL() + "?unknown=1", on.URL() + "?prefix=a&prefix=b", on.URL() + "?prefix=a%7Bb", on.URL() + "?timeout=5",
		on.URL() + "?timeout=-1s",
		on.URL() + "?wait=x", on.URL() + "?wait=-1", on.URL() + "?restart=maybe", on.URL() + "?ca=/nowhere",
		on.URL() + "?sentinel_auth=x",
		strings.Replace(on.URL(), "redis:", "rediss:", 1) + "?ca=/nowhere", login, // there is no such user
	} {
		s, err := redisstore.Open(t.Context(), url, nil)
		if err == nil {
			must(t, s.Close())
		}
		if !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("open %q: %v", url, err)
		} else if text := err.Error(); strings.Contains(text, "hunter2") {
			t.Errorf("open %q tells the password: %v", url, err)
		}
	}
	for _, url := range []string{
		on.URL(), on.URL() + "/0", on.URL() + "/7?prefix=a.b-C_9&timeout=1s500ms&wait=0&restart=keeps",
		"valkey://" + on.Addr(),
	} {
		s, err := redisstore.Open(t.Context(), url, nil)
		if err != nil {
			t.Errorf("open %q: %v", url, err)
			continue
		}
		must(t, s.Close())
	}
}

// A server that is not there may come.
func TestOpenFailsWhileServerIsUnreachable(t *testing.T) {
	_, err := redisstore.Open(t.Context(), "redis://127.0.0.1:1", nil)
	wantError(t, err, reprise.ErrUnavailable)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the cause")
	cancel(cause)
	_, err = redisstore.Open(ctx, server(t).URL(), nil)
	wantError(t, err, cause)
}

func TestPasswordThatIsWrongIsInvalid(t *testing.T) {
	on := testserver.Redis(t, &testserver.RedisOptions{Password: "hunter2"})
	s := mustOpen(t, on.URL(), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 1)
	for _, url := range []string{
		"redis://" + on.Addr(), "redis://:wrong@" + on.Addr(), "redis://somebody:hunter2@" + on.Addr(),
	} {
		_, err := redisstore.Open(t.Context(), url, nil)
		wantError(t, err, reprise.ErrInvalid)
	}
}

// A user who may do what docs/internals/storage-redis.md lists, and nothing else, can use the store.
func TestUserWithFewRights(t *testing.T) {
	on := testserver.Redis(t, nil)
	rules := "on >pw ~reprise:* &reprise:* -@all +hello +auth +ping +client|setname +info +evalsha +eval +evalsha_ro +eval_ro" +
		" +hmget +hget +hgetall +hstrlen +hset +del +unlink +pexpireat +xadd +xtrim +xrange +incr +get +zadd +zrem +zrange +zcard +scan +set" +
		" +multi +exec +role +spublish +ssubscribe +sunsubscribe"
	command(t, on, append([]string{"ACL", "SETUSER", "reprise"}, strings.Fields(rules)...)...)
	s := mustOpen(t, "redis://reprise:pw@"+on.Addr(), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 3)
	must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 2, Kept: 10}))
	req := one(&info, []byte("end"))
	req.End = &reprise.End{Outcome: "completed", Time: time.Now(), Expires: time.Now()}
	if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
		t.Fatal(errs)
	}
	read(t, s, info.Key)
	heard := make(chan struct{}, 100)
	stop, err := s.Watch(info.Key, func() { heard <- struct{}{} })
	must(t, err)
	<-heard
	stop()
	_, err = s.Stats(t.Context())
	must(t, err)
	loseEntries(t, on, 0)
	must(t, s.Relist(t.Context()))
	if sizes, err := s.Sizes(t.Context()); err != nil || sizes[reprise.DefaultTenant].Streams != 1 {
		t.Fatal(sizes, err)
	}
	swept, err := s.Sweep(t.Context(), time.Now().Add(time.Second), time.Now().Add(time.Hour), 10)
	if err != nil || len(swept) != 1 {
		t.Fatal(swept, err)
	}
	command(t, on, "ACL", "SETUSER", "reprise", "-scan")
	must(t, s.Relist(t.Context()))
	command(t, on, "ACL", "SETUSER", "nobody", "on", ">pw", "+hello", "+ping")
	_, err = redisstore.Open(t.Context(), "redis://nobody:pw@"+on.Addr(), nil)
	wantError(t, err, reprise.ErrInvalid)
}

func TestTLS(t *testing.T) {
	on := testserver.Redis(t, &testserver.RedisOptions{TLS: true})
	s := mustOpen(t, on.URL()+"?ca="+on.CAFile(), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 3)
	if page := read(t, s, info.Key); len(page.Batches) != 3 {
		t.Errorf("%d batches, want 3", len(page.Batches))
	}
	_, err := redisstore.Open(t.Context(), on.URL(), nil) // signed by nobody whom this machine knows
	wantError(t, err, reprise.ErrUnavailable)
	_, err = redisstore.Open(t.Context(), "redis://"+on.Addr()+"?timeout=1s", nil) // without TLS
	wantError(t, err, reprise.ErrUnavailable)
}

// What may lose events is told when the store is opened.
func TestWarningsAboutLossySettings(t *testing.T) {
	for want, config := range map[string][]string{
		"":                     nil,
		"append-only":          {"--appendonly", "no"},
		"crash of the machine": {"--appendfsync", "no"},
		"evict":                {"--maxmemory-policy", "allkeys-lru"},
	} {
		var log bytes.Buffer
		on := testserver.Redis(t, &testserver.RedisOptions{Config: config})
		mustOpen(t, on.URL(), &redisstore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if said := log.String(); want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("%v: the log is %q, want %q", config, said, want)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	testserver.Redis(t, &testserver.RedisOptions{Config: []string{"--unixsocket", socket}})
	s := mustOpen(t, "unix://"+socket+"?prefix=a&db=3", nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 3)
	if page := read(t, s, info.Key); len(page.Batches) != 3 {
		t.Errorf("%d batches, want 3", len(page.Batches))
	}
}
