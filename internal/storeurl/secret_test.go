package storeurl_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"reprise/internal/storeurl"
	"reprise/internal/testserver"
)

// password is one that needs escapes in a URL.
const password = "s3kret/and?more#of@it"

// wantSecret fails if text contains a piece of password, as it is or escaped.
func wantSecret(t *testing.T, what, text string) {
	t.Helper()
	for _, piece := range []string{"s3kret", "more", "of@it", "of%40it"} {
		if strings.Contains(text, piece) {
			t.Errorf("%s contains %q: %s", what, piece, text)
		}
	}
}

// TestRefusedPasswordIsNotShown: a server of each kind that refuses a password, or that is not there, is reported
// without the password, in the error and in the log.
func TestRefusedPasswordIsNotShown(t *testing.T) {
	refusing := map[string]string{
		"redis":    testserver.Redis(t, &testserver.RedisOptions{Password: "other"}).Addr(),
		"postgres": testserver.Postgres(t, &testserver.PostgresOptions{Password: "other"}).Addr() + "/reprise",
		"nats":     testserver.NATS(t, &testserver.NATSOptions{User: "user", Password: "other"}).Addr(),
	}
	absent := map[string]string{"redis": "127.0.0.1:1", "postgres": "127.0.0.1:1/reprise", "nats": "127.0.0.1:1"}
	for what, servers := range map[string]map[string]string{"refuses": refusing, "is absent": absent} {
		for scheme, at := range servers {
			var logged bytes.Buffer
			opts := &storeurl.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			store, err := storeurl.Open(ctx, scheme+"://"+url.UserPassword("user", password).String()+"@"+at, opts)
			cancel()
			if err == nil {
				t.Errorf("%s %s: opened", scheme, what)
				check(t, store.Close())
				continue
			}
			wantSecret(t, scheme+" "+what+": the error", err.Error())
			wantSecret(t, scheme+" "+what+": the log", logged.String())
		}
	}
}

// TestMalformedURLDoesNotShowItsPassword: a URL whose password is not escaped, or with another mistake, is refused
// without the password, and shown without it.
func TestMalformedURLDoesNotShowItsPassword(t *testing.T) {
	for _, rest := range []string{
		"://user:" + password + "@127.0.0.1:1/reprise", "://user:1/s3kret@127.0.0.1:1", "://user:1?s3kret@127.0.0.1:1",
		"://user:1#s3kret@127.0.0.1:1", "://user/s3kret@127.0.0.1:1", "://user:s3kret%zz@127.0.0.1:1",
		":/user:s3kret@127.0.0.1:1", "//user:s3kret@127.0.0.1:1", ":user:s3kret@127.0.0.1", "user:s3kret@127.0.0.1",
		"://user:s3kret@127.0.0.1:port/", "://user:s3 kret@127.0.0.1:1",
	} {
		for _, scheme := range []string{"redis", "postgres", "nats", "unknown", ""} {
			for _, wrapper := range []string{"", "encrypt+compress+"} {
				at := wrapper + scheme + rest
				store, err := storeurl.Open(t.Context(), at, nil)
				if err == nil {
					t.Errorf("%s: opened", at)
					check(t, store.Close())
					continue
				}
				wantSecret(t, at+": the error", err.Error())
				wantSecret(t, at+": what is shown", storeurl.Redact(at))
			}
		}
	}
	for _, kept := range []string{
		"sqlite:/home/me@work/store.db", "encrypt+sqlite:a@b", "log:/a@b", "memory:", "file:/a@b",
	} {
		if shown := storeurl.Redact(kept); shown != kept {
			t.Errorf("%s is shown as %s", kept, shown)
		}
	}
}
