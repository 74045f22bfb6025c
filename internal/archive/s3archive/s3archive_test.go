package s3archive_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/archive"
	"reprise/internal/archive/archivetest"
	"reprise/internal/archive/s3archive"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// serve starts a server of the protocol with the bucket "events", whose requests go through wrap.
func serve(tb testing.TB, wrap func(http.Handler) http.Handler) (url string) {
	tb.Helper()
	backend := s3mem.New()
	check(tb, backend.CreateBucket("events"))
	handler := gofakes3.New(backend).Server()
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	tb.Cleanup(server.Close)
	return server.URL
}

var keys = credentials.NewStaticV4("key", "secret", "")

func open(tb testing.TB) archive.Place {
	tb.Helper()
	bucket, err := s3archive.Open(tb.Context(), "s3://events/some/prefix?region=us-east-1&endpoint="+serve(tb, nil),
		&s3archive.Options{Credentials: keys})
	check(tb, err)
	return bucket
}

func TestBucketKeepsContract(t *testing.T) { archivetest.Run(t, open) }

func TestURLs(t *testing.T) {
	for _, url := range []string{
		"", "s3:", "s3://", "http://events", "s3://key:secret@events", "s3://events?nonsense=1",
		"s3://events?endpoint=ftp://x",
		"s3://events?endpoint=http://x/path", "s3://events?endpoint=http://u:p@x", "s3://e%zz",
	} {
		if _, err := s3archive.Open(t.Context(), url, nil); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := s3archive.Open(t.Context(), "s3://other?endpoint="+serve(t, nil),
		&s3archive.Options{Credentials: keys}); !errors.Is(err, reprise.ErrInvalid) {
		t.Error("a bucket that does not exist:", err)
	}
}

// TestServerThatFails: what may pass says so, in bounded time, and what will not pass does not.
func TestServerThatFails(t *testing.T) {
	var status atomic.Int64
	url := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch s := int(status.Load()); s {
			case 0:
				next.ServeHTTP(w, r)
			case 1: // no answer at all
				_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not seen
				<-r.Context().Done()
			default:
				w.WriteHeader(s)
			}
		})
	})
	open := func(opts *s3archive.Options) *archive.Store {
		bucket, err := s3archive.Open(t.Context(), "s3://events?region=us-east-1&endpoint="+url, opts)
		check(t, err)
		store, err := archive.Open(bucket)
		check(t, err)
		t.Cleanup(func() { check(t, store.Close()) })
		return store
	}
	patient := open(&s3archive.Options{Credentials: keys, Timeout: time.Minute, UploadTimeout: time.Minute})
	const soon = 500 * time.Millisecond
	impatient := open(&s3archive.Options{Credentials: keys, Timeout: soon, UploadTimeout: 2 * soon})
	info := reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: "default", Name: "s"}, Epoch: reprise.NewEpoch(), Earliest: 1,
		End: &reprise.End{Outcome: "completed"},
	}
	none := func(func(reprise.Batch, error) bool) {}
	check(t, patient.Put(t.Context(), info, none))
	for _, c := range []struct {
		status int64
		passes bool
	}{{500, true}, {503, true}, {403, false}, {1, true}} {
		status.Store(c.status)
		store := patient
		if c.passes { // which is waited for
			store = impatient
		}
		_, hasErr := store.Has(t.Context(), info)
		_, readErr := store.Read(t.Context(), info.Key, 0, 1)
		_, listErr := store.List(t.Context(), reprise.ListQuery{Limit: 1})
		for op, err := range map[string]error{
			"put": store.Put(t.Context(), info, none), "has": hasErr, "read": readErr,
			"list": listErr,
		} {
			if err == nil || errors.Is(err, reprise.ErrUnavailable) != c.passes || errors.Is(err, reprise.ErrNotFound) {
				t.Errorf("%s with status %d: %v", op, c.status, err)
			}
		}
	}
	status.Store(0)
	if has, err := patient.Has(t.Context(), info); !has || err != nil {
		t.Error("it does not work again:", err)
	}
}

// TestServerThatIsNotThere does not wait for long.
func TestServerThatIsNotThere(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	check(t, err)
	check(t, l.Close())
	_, err = s3archive.Open(t.Context(), "s3://events?region=us-east-1&endpoint=http://"+l.Addr().String(),
		&s3archive.Options{Credentials: keys, Timeout: time.Second})
	if !errors.Is(err, reprise.ErrUnavailable) {
		t.Fatal(err)
	}
}
