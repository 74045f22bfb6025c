package api_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/audit"
	"reprise/internal/quota"
)

// soaking makes the tests of many requests long; make soak sets it.
var soaking = os.Getenv("REPRISE_TEST_SOAK") != ""

// residue is what requests may leave behind.
type residue struct {
	heap              uint64
	goroutines, files int
}

// residueOf looks at the process and at the files of a test.
func residueOf(t *testing.T) (r residue) {
	t.Helper()
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what a finalizer has freed
	runtime.ReadMemStats(&stats)
	r.heap, r.goroutines = stats.HeapAlloc, runtime.NumGoroutine()
	err := filepath.WalkDir(filepath.Dir(t.TempDir()), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			r.files++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRefusedRequestsLeaveNothing: requests that are refused, each from another address and with another credential or
// name, leave no memory, goroutine or file behind, and no more audit records than a minute has.
func TestRefusedRequestsLeaveNothing(t *testing.T) {
	requests, settled := 20_000, 12_000 // as many as there are sources of guesses, which are kept apart up to a bound
	if raced {
		requests, settled = 2_000, 2_000
	}
	if soaking {
		requests = 1_000_000
	}
	w := start(t, setup{audit: true, quiet: true, refusedEvery: time.Hour, api: api.Options{Quotas: quota.New(nil)}})
	_, reader := w.key("stranger", "read")
	_, known := w.key(reprise.DefaultTenant, "read")
	wrong := []struct {
		method, path, credential string
		status                   []int
	}{
		{"GET", "/v1/streams", "", []int{401}},
		{"GET", "/v1/streams", "a-wrong-token-%d", []int{401, 429}},
		{"GET", "/v1/streams", "rp_none%d_00000000000000000000000000000000", []int{401, 429}},
		{"GET", "/v1/streams", known[:len(known)-8] + "%d", []int{401, 429}},
		{"GET", "/v1/streams", "eyJhbGciOiJub25lIn0.eyJzdWIiOiIlZCJ9.%d", []int{401, 429}},
		{"GET", "/v1/streams/hidden/events?ticket=t%d", "", []int{401, 429}},
		{"PUT", "/v1/streams/new-%d", reader, []int{403}},
		{"POST", "/v1/login", "", []int{401, 422, 400, 415, 429}},
		{"GET", "/no/such/path/%d", reader, []int{404}},
	}
	ask := func(i int) {
		r := wrong[i%len(wrong)]
		numbered := func(text string) string { return strings.ReplaceAll(text, "%d", fmt.Sprint(i)) }
		req := httptest.NewRequest(r.method, numbered(r.path), strings.NewReader("{}"))
		req.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", i>>16&255, i>>8&255, i&255)
		req.Host = "localhost"
		req.Header.Set("Content-Type", "application/json")
		if r.credential != "" {
			req.Header.Set("Authorization", "Bearer "+numbered(r.credential))
		}
		got := httptest.NewRecorder()
		w.server.ServeHTTP(got, req)
		if slices.Contains(r.status, got.Code) {
			return
		}
		t.Fatalf("%s %s: status %d: %s", r.method, req.URL, got.Code, got.Body)
	}
	for i := range settled {
		ask(i)
	}
	before := residueOf(t)
	for i := range requests {
		ask(settled + i)
	}
	after := residueOf(t)
	t.Logf("after %d requests: %+v; after %d more: %+v", settled, before, requests, after)
	if after.heap > before.heap+2<<20 {
		t.Errorf("%d refused requests leave %d KiB of memory behind", requests, (after.heap-before.heap)>>10)
	}
	if after.goroutines > before.goroutines+8 || after.files > before.files {
		t.Errorf("%d refused requests: %+v before and %+v after", requests, before, after)
	}
	w.trail.Close()
	stream, err := w.log.Stream(t.Context(), audit.StreamKey)
	w.ok(err)
	info, err := stream.Info(t.Context())
	w.ok(err)
	if kept := info.Tail; kept < 100 || kept > 1_100 {
		t.Errorf("%d audit records of %d refused requests", kept, settled+requests)
	}
}

// TestManyPrincipalsAreForgotten: nothing is counted for principals that do nothing any more, and requests of many of
// them leave nothing behind.
func TestManyPrincipalsAreForgotten(t *testing.T) {
	principals := 2_000
	if raced {
		principals = 300
	}
	if soaking {
		principals = 10_000
	}
	book := quota.New(&quota.Options{Principal: quota.Limits{quota.Readers: 5}})
	w := start(t, setup{quiet: true, api: api.Options{Quotas: book}})
	texts := make([]string, principals)
	for i := range texts {
		_, texts[i] = w.key(reprise.Tenant(fmt.Sprintf("tenant-%d", i%100)), "read")
	}
	ask := func(text string) {
		req := httptest.NewRequest(http.MethodGet, "/v1/streams", nil)
		req.Host = "localhost"
		req.Header.Set("Authorization", "Bearer "+text)
		got := httptest.NewRecorder()
		w.server.ServeHTTP(got, req)
		if got.Code != http.StatusOK {
			t.Fatalf("status %d: %s", got.Code, got.Body)
		}
	}
	for _, text := range texts {
		ask(text)
	}
	before := residueOf(t)
	for range 5 {
		for _, text := range texts {
			ask(text)
		}
	}
	after := residueOf(t)
	t.Logf("%d principals: %+v, and after five requests more of each %+v", principals, before, after)
	if after.heap > before.heap+2<<20 || after.goroutines > before.goroutines+8 || after.files > before.files {
		t.Errorf("%d principals: %+v before and %+v after", principals, before, after)
	}
	if n := book.Accounts(); n > 0 {
		t.Errorf("%d accounts of principals that do nothing are remembered", n)
	}
}
