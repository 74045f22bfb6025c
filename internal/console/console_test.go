package console_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"reprise/internal/console"
)

// maxSize bounds all files of the console together, each compressed.
const maxSize = 300_000

func TestConsoleIsSmall(t *testing.T) {
	if sum := zippedSize(t, "dist/*"); sum > maxSize {
		t.Errorf("the files have %d bytes compressed, at most %d are allowed", sum, maxSize)
	}
}

// zippedSize is the size of the files that match any of the patterns, each compressed.
func zippedSize(t *testing.T, patterns ...string) (sum int) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		check(t, err)
		if len(files) == 0 {
			t.Fatalf("no file matches %s", pattern)
		}
		for _, path := range files {
			content, err := os.ReadFile(path)
			check(t, err)
			var zipped bytes.Buffer
			w := gzip.NewWriter(&zipped)
			_, err = w.Write(content)
			check(t, err)
			check(t, w.Close())
			sum += zipped.Len()
		}
	}
	return sum
}

// TestSourcesAreShort holds the sources of the page to what internal/conventions asks of Go.
func TestSourcesAreShort(t *testing.T) {
	seen := 0
	check(t, filepath.WalkDir("web", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "build") {
			return fs.SkipDir
		}
		if !regexp.MustCompile(`\.(tsx?|css|mjs)$`).MatchString(path) {
			return nil
		}
		seen++
		text, err := os.ReadFile(path)
		if lines := bytes.Count(text, []byte("\n")); lines > 350 {
			t.Errorf("%s has %d lines, at most 350 are allowed", path, lines)
		}
		return err
	}))
	if seen < 20 {
		t.Errorf("found %d files alone", seen)
	}
}

func TestFilesAreServed(t *testing.T) {
	handler := console.New()
	get := func(path string, header ...string) *http.Response {
		r := httptest.NewRequest("GET", path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result()
	}
	page := get("/")
	body := new(bytes.Buffer)
	_, err := body.ReadFrom(page.Body)
	check(t, err)
	if page.StatusCode != 200 || page.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("/ is answered with %d %v", page.StatusCode, page.Header)
	}
	if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'self'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
	if again := get("/", "If-None-Match", page.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("the same page again: %d", again.StatusCode)
	}
	names := regexp.MustCompile(`"(/console/[^"]+)"`).FindAllStringSubmatch(body.String(), -1)
	if len(names) < 4 {
		t.Fatalf("the page names %d files: %s", len(names), body)
	}
	for _, name := range names {
		answer := get(name[1], "Accept-Encoding", "gzip, br")
		if answer.StatusCode != 200 || !strings.Contains(answer.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s is answered with %d %v", name[1], answer.StatusCode, answer.Header)
		}
		if strings.HasSuffix(name[1], ".js") && answer.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s is not compressed", name[1])
		}
		if answer.Header.Get("Content-Type") == "" {
			t.Errorf("%s has no media type", name[1])
		}
	}
	if missing := get("/console/nothing.js"); missing.StatusCode != 404 ||
		missing.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a file that is not there: %d %v", missing.StatusCode, missing.Header)
	}
}

// TestServerServesTheConsole: a browser is given the page at "/" by the names that the API goes by, and a client that
// asks for no page is told that there is nothing.
func TestServerServesTheConsole(t *testing.T) {
	s := startServer(t)
	for _, test := range []struct {
		path, accept, host, origin string
		status                     int
		mediaType                  string
	}{
		{"/", "text/html,application/xhtml+xml,*/*;q=0.8", "", "", 200, "text/html; charset=utf-8"},
		{"/", "*/*", "", "", 404, "application/problem+json"},
		{"/", "", "", "", 404, "application/problem+json"},
		{"/", "application/json", "", "", 404, "application/problem+json"},
		{"/", "text/html", "evil.example", "", 403, "application/problem+json"},
		{"/", "text/html", "", "https://evil.example", 403, "application/problem+json"},
		{"/console/licences.txt", "*/*", "", "", 200, "text/plain; charset=utf-8"},
		{"/console/licences.txt", "*/*", "evil.example", "", 403, "application/problem+json"},
		{"/console/", "text/html", "", "", 404, "application/problem+json"},
		{"/console", "text/html", "", "", 404, "application/problem+json"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+test.path, nil)
		check(t, err)
		r.Header.Set("Accept", test.accept)
		if test.host != "" {
			r.Host = test.host
		}
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		answer, err := http.DefaultClient.Do(r)
		check(t, err)
		check(t, answer.Body.Close())
		got := fmt.Sprint(answer.StatusCode, " ", answer.Header.Get("Content-Type"))
		if want := fmt.Sprint(test.status, " ", test.mediaType); got != want {
			t.Errorf("%+v: %s, want %s", test, got, want)
		}
	}
}
