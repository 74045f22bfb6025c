package remoteserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/archive"
	"reprise/internal/archive/archivetest"
	"reprise/internal/archive/remote"
	"reprise/internal/archive/remoteserver"
)

// asHelper is set in the environment of this test binary when it runs as the helper.
const asHelper = "REPRISE_TEST_AS_ARCHIVE_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(asHelper) {
	case "":
		goleak.VerifyTestMain(m)
	case "mute":
		os.Exit(3)
	case "old":
		_, _ = os.Stdout.WriteString(`{"protocol":0}` + "\n")
		os.Exit(0)
	default:
		os.Exit(remoteserver.Main(os.Args[1:]))
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// bucket starts a server of the S3 protocol and returns the URL of a bucket there. Requests go through wrap.
func bucket(tb testing.TB, wrap func(http.Handler) http.Handler) (url string) {
	tb.Helper()
	backend := s3mem.New()
	check(tb, backend.CreateBucket("events"))
	handler := gofakes3.New(backend).Server()
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	tb.Cleanup(server.Close)
	return "s3://events/some/prefix?region=us-east-1&endpoint=" + server.URL
}

// start runs this test binary as the helper of the archive.
func start(t *testing.T, url string) (*remote.Helper, error) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	if os.Getenv(asHelper) == "" {
		t.Setenv(asHelper, "1")
	}
	program, err := os.Executable()
	check(t, err)
	return remote.Start(t.Context(), program, url)
}

// TestPlaceOfHelperKeepsContract runs the suite of archive.Place against buckets that a process of its own serves.
func TestPlaceOfHelperKeepsContract(t *testing.T) {
	archivetest.Run(t, func(tb testing.TB) archive.Place {
		helper, err := start(tb.(*testing.T), bucket(tb, nil))
		check(tb, err)
		return remote.Place{Helper: helper}
	})
}

func TestStartReturnsErrorOfArchive(t *testing.T) {
	for _, url := range []string{"", "file:x", "s3://", "kafka://nowhere", "s3://key:secret@events"} {
		if _, err := start(t, url); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestStartRefusesHelperThatIsNotOurs(t *testing.T) {
	for as, want := range map[string]error{"mute": reprise.ErrUnavailable, "old": reprise.ErrInvalid} {
		t.Setenv(asHelper, as)
		if _, err := start(t, "s3://events"); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", as, err, want)
		}
	}
	if _, err := remote.Start(t.Context(), filepath.Join(t.TempDir(), "nothing"), "s3://events"); !errors.Is(err,
		reprise.ErrUnavailable) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestStartEndsWithContext: a server that does not answer does not hold up the caller.
func TestStartEndsWithContext(t *testing.T) {
	url := bucket(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	})
	program, err := os.Executable()
	check(t, err)
	t.Setenv(asHelper, "1")
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := remote.Start(ctx, program, url); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// TestHelperThatDiedIsStartedAgain: the call that finds it dead may fail, later ones do not.
func TestHelperThatDiedIsStartedAgain(t *testing.T) {
	helper, err := start(t, bucket(t, nil))
	check(t, err)
	place := remote.Place{Helper: helper}
	defer place.Close()
	write := func(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }
	check(t, place.Create(t.Context(), "d/a/@1.X", write))
	f, err := place.Open(t.Context(), "d/a/@1.X")
	check(t, err)
	check(t, syscall.Kill(helper.PID(), syscall.SIGKILL))
	if _, err := f.ReadAt(make([]byte, 5), 0); !errors.Is(err, reprise.ErrUnavailable) {
		t.Fatalf("a file of the dead helper: %v", err)
	}
	again, err := place.Open(t.Context(), "d/a/@1.X")
	for begun := time.Now(); errors.Is(err, reprise.ErrUnavailable) && time.Since(begun) < 2*time.Minute; {
		again, err = place.Open(t.Context(), "d/a/@1.X")
	}
	check(t, err)
	b := make([]byte, 5)
	if _, err := again.ReadAt(b, 0); err != nil || string(b) != "hello" {
		t.Fatalf("%q, %v", b, err)
	}
	check(t, errors.Join(f.Close(), again.Close()))
}

// TestHelperHasNoName: it listens nowhere, so that no command can call it, and calls fail after Close.
func TestHelperHasNoName(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	helper, err := start(t, bucket(t, nil))
	check(t, err)
	if names, err := os.ReadDir(os.TempDir()); err != nil || len(names) > 0 {
		t.Errorf("in the temporary directory are %v, %v", names, err)
	}
	links, err := filepath.Glob("/proc/" + strconv.Itoa(helper.PID()) + "/fd/*")
	check(t, err)
	for _, link := range links {
		if to, _ := os.Readlink(link); strings.HasPrefix(to, "socket:") {
			listening, err := os.ReadFile("/proc/net/unix")
			check(t, err)
			inode := strings.Trim(to, "socket:[]")
			for line := range strings.Lines(string(listening)) {
				if fields := strings.Fields(line); len(fields) > 6 && fields[6] == inode && fields[3] == "00010000" {
					t.Errorf("it listens: %s", line)
				}
			}
		}
	}
	check(t, helper.Close())
	if _, err := (remote.Place{Helper: helper}).Open(t.Context(), "a"); !errors.Is(err, reprise.ErrClosed) {
		t.Error(err)
	}
}

// TestRefusalOfBucketIsFinal: an error that will not pass does not wrap ErrUnavailable on our side either.
func TestRefusalOfBucketIsFinal(t *testing.T) {
	refuse := make(chan struct{})
	url := bucket(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-refuse:
				w.WriteHeader(http.StatusForbidden)
			default:
				next.ServeHTTP(w, r)
			}
		})
	})
	helper, err := start(t, url)
	check(t, err)
	place := remote.Place{Helper: helper}
	defer place.Close()
	close(refuse)
	_, openErr := place.Open(t.Context(), "a/b/@1.X")
	createErr := place.Create(t.Context(), "a/b/@1.X", func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("x", 4<<20))
		return err
	})
	for op, err := range map[string]error{"open": openErr, "create": createErr} {
		if err == nil || errors.Is(err, reprise.ErrUnavailable) || errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("%s: %v", op, err)
		}
	}
}
