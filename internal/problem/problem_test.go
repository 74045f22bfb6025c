package problem_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/internal/problem"
)

// contract is the table of the HTTP contract (DESIGN, section 5): code, status, retryable.
const contract = `
cursor_malformed   400 no
cursor_foreign     400 no
cursor_ahead       409 no
cursor_expired     410 no
epoch_changed      410 no
not_found          404 no
stream_expired     410 no
stream_ended       409 no
conflict           409 no
invalid            400 no
unauthenticated    401 no
forbidden          403 no
too_many_readers   429 yes
rate_limited       429 yes
quota_exceeded     429 yes
payload_too_large  413 no
store_unavailable  503 yes
shutting_down      503 yes
internal           500 no
`

func TestTableIsTheContract(t *testing.T) {
	for line := range strings.Lines(strings.TrimSpace(contract)) {
		var code, retryable string
		var status int
		if _, err := fmt.Sscan(line, &code, &status, &retryable); err != nil {
			t.Fatal(err)
		}
		p := problem.New(problem.Code(code), "")
		if string(p.Code) != code || p.Status != status || p.Retryable != (retryable == "yes") {
			t.Errorf("%s: got %d, retryable %t, code %s", code, p.Status, p.Retryable, p.Code)
		}
		if p.Type != "urn:reprise:problem:"+code || p.Title == "" {
			t.Errorf("%s: type %q, title %q", code, p.Type, p.Title)
		}
		if p.Retryable != (p.RetryAfter > 0) {
			t.Errorf("%s: Retry-After %v", code, p.RetryAfter)
		}
	}
	if got := problem.New("no such code", "").Code; got != problem.CodeInternal {
		t.Errorf("an unknown code became %q", got)
	}
}

// Every error that a Log may return has its code, keeps it when wrapped, and is found
// again by the client that parses the answer.
func TestErrorsSurviveTheWire(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code problem.Code
		back error
	}{
		{reprise.ErrInvalid, problem.CodeInvalid, reprise.ErrInvalid},
		{reprise.ErrNotFound, problem.CodeNotFound, reprise.ErrNotFound},
		{reprise.ErrExpired, problem.CodeStreamExpired, reprise.ErrExpired},
		{reprise.ErrEnded, problem.CodeStreamEnded, reprise.ErrEnded},
		{reprise.ErrConflict, problem.CodeConflict, reprise.ErrConflict},
		{reprise.ErrFenced, problem.CodeConflict, reprise.ErrConflict},
		{reprise.ErrQuota, problem.CodeQuotaExceeded, reprise.ErrQuota},
		{reprise.ErrTooManyReaders, problem.CodeTooManyReaders, reprise.ErrTooManyReaders},
		{reprise.ErrCursorMalformed, problem.CodeCursorMalformed, reprise.ErrCursorMalformed},
		{reprise.ErrCursorForeign, problem.CodeCursorForeign, reprise.ErrCursorForeign},
		{reprise.ErrUnavailable, problem.CodeStoreUnavailable, reprise.ErrUnavailable},
		{reprise.DiskFull, problem.CodeStoreUnavailable, reprise.ErrUnavailable},
		{reprise.ReadOnly, problem.CodeStoreUnavailable, reprise.ErrUnavailable},
		{reprise.ErrClosed, problem.CodeShuttingDown, reprise.ErrClosed},
		{context.Canceled, problem.CodeShuttingDown, reprise.ErrClosed},
		{context.DeadlineExceeded, problem.CodeStoreUnavailable, reprise.ErrUnavailable},
		{&http.MaxBytesError{Limit: 5}, problem.CodePayloadTooLarge, nil},
		{problem.New(problem.CodeForbidden, "read only"), problem.CodeForbidden, nil},
		{errors.New("secret"), problem.CodeInternal, nil},
	} {
		t.Run(string(tt.code)+" of "+tt.err.Error(), func(t *testing.T) {
			sent := problem.From(fmt.Errorf("stream builds: %w", tt.err))
			got := overTheWire(t, sent)
			if diff := cmp.Diff(sent, got); diff != "" {
				t.Errorf("the client sees another problem (-sent +got):\n%s", diff)
			}
			if got.Code != tt.code {
				t.Errorf("code %s, want %s", got.Code, tt.code)
			}
			if tt.back != nil && !errors.Is(got, tt.back) {
				t.Errorf("%v is not %v", got, tt.back)
			}
			if tt.back == nil && errors.Unwrap(got) != nil {
				t.Errorf("%v stands for %v", got, errors.Unwrap(got))
			}
		})
	}
}

func TestWindowErrorKeepsItsCursors(t *testing.T) {
	epoch := reprise.NewEpoch()
	at := func(seq uint64) reprise.Cursor { return reprise.Cursor{Seq: seq, Epoch: epoch, Tag: "0123456789ABC"} }
	for reason, want := range map[reprise.WindowReason]problem.Code{
		reprise.CursorExpired: problem.CodeCursorExpired,
		reprise.CursorAhead:   problem.CodeCursorAhead,
		reprise.EpochChanged:  problem.CodeEpochChanged,
	} {
		got := overTheWire(t, problem.From(fmt.Errorf("read: %w", &reprise.WindowError{
			Reason: reason, Asked: at(3), Earliest: at(120), Tail: at(9120), Fork: at(2),
		})))
		if got.Code != want || got.Earliest != at(120).String() || got.Tail != at(9120).String() {
			t.Errorf("%v: %+v", reason, got)
		}
		var fork reprise.Cursor
		if reason == reprise.EpochChanged { // the others have none
			fork = at(2)
		}
		window, ok := errors.AsType[*reprise.WindowError](got)
		if !ok {
			t.Fatalf("%v: no *WindowError", reason)
		}
		if window.Reason != reason || window.Earliest != at(120) || window.Tail != at(9120) || window.Fork != fork {
			t.Errorf("%v: %+v", reason, window)
		}
	}
}

func TestServerErrorsDoNotLeak(t *testing.T) {
	const secret = "open /var/lib/reprise/log.db: no space left"
	for _, err := range []error{
		errors.New(secret),
		fmt.Errorf("%w: %s", reprise.ErrUnavailable, secret),
		fmt.Errorf("%s: %w", secret, context.Canceled),
		fmt.Errorf("%w: %s", reprise.DiskFull, secret),
	} {
		body, _ := json.Marshal(problem.From(err))
		if bytes.Contains(body, []byte("/var/lib")) {
			t.Errorf("leaks: %s", body)
		}
	}
	if p := problem.From(fmt.Errorf("type %q: %w", "a b", reprise.ErrInvalid)); !strings.Contains(p.Detail, `"a b"`) {
		t.Errorf("the client is not told what is invalid: %q", p.Detail)
	}
}

func TestWriteHeaders(t *testing.T) {
	w := httptest.NewRecorder()
	if err := problem.Write(w, problem.RateLimited(1100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Content-Type":           {"application/problem+json"},
		"Cache-Control":          {"no-store"},
		"X-Content-Type-Options": {"nosniff"},
		"Retry-After":            {"2"},
		"Content-Length":         {fmt.Sprint(w.Body.Len())},
	}
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Error(diff)
	}
	w = httptest.NewRecorder()
	problem.Write(w, problem.New(problem.CodeUnauthenticated, ""))
	if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestParseForeignResponses(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	html := http.Header{"Content-Type": {"text/html"}}
	ours := http.Header{"Content-Type": {"application/problem+json; charset=utf-8"}}
	date := http.Header{"Retry-After": {now.Add(7 * time.Second).Format(http.TimeFormat)}}
	for _, tt := range []struct {
		name   string
		status int
		header http.Header
		body   string
		want   problem.Problem
	}{
		{"error page", 502, html, "<h1>502</h1>", problem.Problem{Status: 502, Title: "Bad Gateway", Retryable: true}},
		{"login page", 403, html, "<form>", problem.Problem{Status: 403, Title: "Forbidden"}},
		{
			"date", 503, date, "",
			problem.Problem{Status: 503, Title: "Service Unavailable", Retryable: true, RetryAfter: 7 * time.Second},
		},
		{
			"garbage", 500, ours, "{\"code\":",
			problem.Problem{Status: 500, Title: "Internal Server Error", Retryable: true},
		},
		{"no code", 404, ours, `{"title":"x"}`, problem.Problem{Status: 404, Title: "Not Found"}},
		{
			"newer code", 418, ours, `{"code":"teapot","retryable":true,"status":200,"new":{}}`,
			problem.Problem{Status: 418, Code: "teapot", Retryable: true},
		},
		{
			"endless", 500, ours, strings.Repeat("[", 1<<20),
			problem.Problem{Status: 500, Title: "Internal Server Error", Retryable: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := &http.Response{
				StatusCode: tt.status, Header: tt.header,
				Body: io.NopCloser(strings.NewReader(tt.body)),
			}
			if diff := cmp.Diff(tt.want, problem.Parse(res, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "99999999999999": 24 * time.Hour,
		"Fri, 20 Nov 2026 09:30:03 GMT": 3 * time.Second, "Fri, 20 Nov 2020 09:30:03 GMT": 0,
	} {
		if got, ok := problem.RetryAfter(http.Header{"Retry-After": {text}}, now); !ok || got != want {
			t.Errorf("%q: %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "-1", "soon", "1.5"} {
		if got, ok := problem.RetryAfter(http.Header{"Retry-After": {text}}, now); ok {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestErrorText(t *testing.T) {
	for want, p := range map[string]problem.Problem{
		"invalid: argv: unknown field":                 problem.Invalid(422, "argv", "unknown field"),
		"forbidden: The credentials do not allow this": problem.New(problem.CodeForbidden, ""),
		"status 502 Bad Gateway":                       {Status: 502},
	} {
		if p.Error() != want {
			t.Errorf("%q, want %q", p.Error(), want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(410, `{"type":"t","title":"x","status":410,"code":"cursor_expired","retryable":false,"earliest":"1.A.B","retry_after":"1s"}`,
		"3")
	f.Fuzz(func(t *testing.T, status int, body, after string) {
		header := http.Header{"Content-Type": {problem.ContentType}, "Retry-After": {after}}
		p := problem.Parse(&http.Response{
			StatusCode: status, Header: header,
			Body: io.NopCloser(strings.NewReader(body)),
		}, time.Now())
		if p.Status != status || p.RetryAfter < 0 || p.Error() == "" {
			t.Errorf("%+v", p)
		}
		_ = p.Unwrap()
	})
}

// overTheWire writes p as a server does and reads it as a client does.
func overTheWire(t *testing.T, p problem.Problem) problem.Problem {
	t.Helper()
	w := httptest.NewRecorder()
	if err := problem.Write(w, p); err != nil {
		t.Fatal(err)
	}
	return problem.Parse(w.Result(), time.Now())
}

// The one who runs the server can mend a full disk, so the client is told of it.
func TestCauseOfUnavailableStoreIsTold(t *testing.T) {
	for err, want := range map[error]string{
		reprise.DiskFull: "disk full", reprise.ReadOnly: "the store is read-only", reprise.ErrUnavailable: "",
	} {
		if p := problem.From(fmt.Errorf("append builds: %w: /var/lib", err)); p.Detail != want {
			t.Errorf("%v: detail %q, want %q", err, p.Detail, want)
		}
	}
}
