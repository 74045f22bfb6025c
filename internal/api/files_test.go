package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/files"
)

// openFiles makes the root "work" and returns what closes it.
func (w *fixture) openFiles(opts *api.Options) (closeFiles func()) {
	w.Helper()
	w.files = w.TempDir()
	roots, err := files.Open(map[string]string{"work": w.files}, nil)
	w.ok(err)
	watches, err := files.OpenWatches(w.log, roots, w.TempDir(), &files.WatchOptions{Interval: time.Millisecond})
	w.ok(err)
	opts.Parts = append(opts.Parts, files.API{Roots: roots, Watches: watches, Reads: opts.Reads, Quotas: opts.Quotas})
	return func() {
		w.ok(watches.Close())
		w.ok(roots.Close())
	}
}

// content is the path of a file with more parameters.
func content(p string, more ...string) string {
	return "/v1/files/content?path=" + url.QueryEscape(p) + strings.Join(append([]string{""}, more...), "&")
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestFileUploadAndDownload(t *testing.T) {
	w := start(t, setup{})
	text := "hello\x00\xff world"
	a := w.do("PUT", content("work/sub/a.bin", "parents=true", "mode=0600"), text).is(200)
	if a.member("complete") != true || a.text("file", "path") != "work/sub/a.bin" || a.text("file", "mode") != "0600" {
		t.Errorf("%s", a.body)
	}
	etag := a.text("file", "etag")
	a = w.do("GET", content("work/sub/a.bin"), "").is(200)
	if a.body != text || a.header.Get("ETag") != etag || a.header.Get("Content-Length") != "13" {
		t.Errorf("%q %v", a.body, a.header)
	}
	if a = w.do("HEAD", content("work/sub/a.bin"), "").is(200); a.body != "" || a.header.Get("Content-Length") != "13" {
		t.Errorf("%q %v", a.body, a.header)
	}
	w.do("GET", content("work/sub/a.bin"), "", "If-None-Match: "+etag).is(304)
	a = w.do("GET", content("work/sub/a.bin"), "", "Range: bytes=6-", "If-Range: "+etag).is(206)
	if a.body != text[6:] ||
		a.header.Get("Content-Range") != "bytes 6-12/13" {
		t.Errorf("%q %v", a.body, a.header)
	}
	for _, other := range []string{`"x"`, "Mon, 02 Jan 2006 15:04:05 GMT"} {
		a = w.do("GET", content("work/sub/a.bin"), "", "Range: bytes=6-", "If-Range: "+other).is(200)
		if a.body != text {
			t.Errorf("If-Range %s: %q", other, a.body)
		}
	}
	w.do("GET", content("work/sub/a.bin"), "", "Range: bytes=13-").refused(416, "invalid")
	for _, asked := range []string{"bytes=6-", "bytes=13-"} {
		w.wholeHead(content("work/sub/a.bin"), "13", "Range: "+asked)
	}
	w.do("GET", content("work/none"), "").refused(404, "not_found")
	w.do("GET", content("work/sub"), "").refused(422, "invalid")
	w.do("PUT", content("work/sub/a.bin", "overwrite=false"), "x").refused(409, "conflict")
	w.do("PUT", content("work/none/x"), "x").refused(404, "not_found")
	a = w.do("GET", "/v1/files/stat?path=work/sub/a.bin&checksum=true", "").is(200)
	if a.text("sha256") != sumOf(text) || a.text("etag") != etag {
		t.Errorf("%s", a.body)
	}
}

func TestFileUploadInPieces(t *testing.T) {
	w := start(t, setup{})
	text := strings.Repeat("0123456789", 1000)
	whole := []string{"size=10000", "sha256=" + sumOf(text)}
	piece := func(offset int) string { return content("work/x", append(whole, fmt.Sprintf("offset=%d", offset))...) }
	w.do("PUT", piece(0), text[:4000]).is(200)
	a := w.do("PUT", piece(5000), text[5000:]).refused(409, "conflict")
	if a.number("offset") != 4000 || a.header.Get("Upload-Offset") != "4000" {
		t.Errorf("%s %v", a.body, a.header)
	}
	w.do("GET", content("work/x"), "").refused(404, "not_found")
	at := "/v1/files/upload?path=work/x&" + strings.Join(whole, "&")
	if a = w.do("GET", at, "").is(200); a.number("offset") != 4000 || a.member("complete") != false {
		t.Errorf("%s", a.body)
	}
	// One that was given up: the body is announced and does not come.
	body := io.MultiReader(strings.NewReader(text[4000:6000]))
	req, err := http.NewRequestWithContext(t.Context(), "PUT", w.url+piece(4000), body)
	w.ok(err)
	req.ContentLength = 6000
	req.Header.Set("Authorization", "Bearer "+token)
	if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
		res.Body.Close()
		t.Errorf("status %d", res.StatusCode)
	}
	w.eventually("what has come is kept", func() bool { return w.do("GET", at, "").is(200).number("offset") == 6000 })
	if a = w.do("PUT", piece(6000), text[6000:]).is(200); a.member("complete") != true || a.number("offset") != 10000 {
		t.Errorf("%s", a.body)
	}
	w.do("PUT", piece(6000), text[6000:]).is(200) // the answer was lost
	if w.do("GET", content("work/x"), "").is(200).body != text {
		t.Error("something else is there")
	}
	w.do("PUT", content("work/y", "offset=0"), "x").refused(422, "invalid")
	w.do("PUT", content("work/y", "offset=0", "size=1", "sha256="+sumOf("y")), "x").refused(422, "invalid")
	w.do("GET", "/v1/files/upload?path=work/x&size=1&sha256=x", "").refused(422, "invalid")
}

func TestFileThatChangesCutsTheDownload(t *testing.T) {
	w := start(t, setup{})
	at := filepath.Join(w.files, "big")
	w.ok(os.WriteFile(at, make([]byte, 64<<20), 0o600)) // more than lies in buffers
	res := w.open("GET", content("work/big"), "")
	first := make([]byte, 1000)
	_, err := io.ReadFull(res.Body, first)
	w.ok(err)
	w.ok(os.WriteFile(at, []byte(strings.Repeat("x", 64<<20)), 0o600))
	rest, err := io.Copy(io.Discard, res.Body)
	if err == nil {
		t.Errorf("two versions were given as one: %d bytes more", rest)
	}
	res.Body.Close()
}

func TestFileLists(t *testing.T) {
	w := start(t, setup{})
	if a := w.do("GET", "/v1/files", "").is(200); !strings.Contains(a.body, `"work"`) {
		t.Errorf("%s", a.body)
	}
	for _, name := range []string{"b.txt", "a.txt", "c.go"} {
		w.do("PUT", content("work/"+name), "text of "+name).is(200)
	}
	a := w.do("GET", "/v1/files?path=work&limit=2", "").is(200)
	list, _ := a.member("files").([]any)
	if len(list) != 2 || !strings.Contains(a.body, "work/b.txt") || a.text("next_cursor") == "" {
		t.Errorf("%s", a.body)
	}
	if a = w.do("GET", "/v1/files?path=work&cursor="+a.text("next_cursor"), "").is(200); a.text("next_cursor") != "" ||
		!strings.Contains(a.body, "work/c.go") || strings.Contains(a.body, "work/b.txt") {
		t.Errorf("%s", a.body)
	}
	w.do("GET", "/v1/files?path=work&cursor=*", "").refused(400, "invalid")
	w.do("GET", "/v1/files?path=elsewhere", "").refused(404, "not_found")
	w.do("GET", "/v1/files?path=../work", "").refused(422, "invalid")
	a = w.do("GET", "/v1/files/search?path=work&name=*.txt&text=of+b", "").is(200)
	if !strings.Contains(a.body, `"line":1`) {
		t.Errorf("%s", a.body)
	}
	w.do("GET", "/v1/files/search?path=work", "").refused(422, "invalid")
}

func TestFileChanges(t *testing.T) {
	w := start(t, setup{})
	w.ok(os.Symlink("/etc", filepath.Join(w.files, "out")))
	w.do("POST", "/v1/files/directory", `{"path":"work/a/b","parents":true}`).is(200)
	w.do("POST", "/v1/files/directory", `{"path":"work/a"}`).refused(409, "conflict")
	w.do("PUT", content("work/a/x"), "X").is(200)
	w.do("PUT", content("work/y"), "Y").is(200)
	w.do("PUT", content("work/out/passwd"), "Y").refused(403, "forbidden")
	w.do("GET", "/v1/files/stat?path=work/out/passwd&checksum=true", "").refused(403, "forbidden")
	w.do("GET", "/v1/files/stat?path=work/none", "").refused(404, "not_found")
	w.do("GET", "/v1/files/stat?path=", "").refused(422, "invalid")
	w.do("POST", "/v1/files/move", `{"from":"work/a/x","to":"work/y"}`).refused(409, "conflict")
	w.do("POST", "/v1/files/move", `{"from":"work/none","to":"work/z"}`).refused(404, "not_found")
	w.do("POST", "/v1/files/move", `{"from":"work","to":"work/z"}`).refused(422, "invalid")
	w.do("POST", "/v1/files/move", `{"from":"work/a/x","to":"work/y","overwrite":true}`).is(200)
	if a := w.do("POST", "/v1/files/permissions", `{"path":"work/y","mode":"0755"}`).is(200); a.text("mode") != "0755" {
		t.Errorf("%s", a.body)
	}
	w.do("POST", "/v1/files/permissions", `{"path":"work/y","mode":"7777"}`).refused(422, "invalid")
	w.do("DELETE", "/v1/files?path=work/a", "").refused(409, "conflict")
	w.do("DELETE", "/v1/files?path=work", "").refused(422, "invalid")
	w.do("DELETE", "/v1/files?path=work/a&recursive=true", "").is(204)
	w.do("DELETE", "/v1/files?path=work/a&recursive=true", "").is(204)
	if text, err := os.ReadFile(filepath.Join(w.files, "y")); err != nil || string(text) != "X" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestFileWatchResumes(t *testing.T) {
	w := start(t, setup{})
	a := w.do("POST", "/v1/files/watches", `{"path":"work","recursive":true}`).is(200)
	events := a.text("links", "events")
	f := w.follow(events+"?after="+a.text("cursor"), "Accept: application/x-ndjson")
	w.do("PUT", content("work/one"), "1").is(200)
	line := f.line()
	if !strings.Contains(line, `"type":"created"`) || !strings.Contains(line, `"path":"work/one"`) {
		t.Errorf("%s", line)
	}
	f.close() // the connection is lost
	cursor := (&answer{w: w, body: line}).text("cursor")
	w.do("PUT", content("work/two"), "2").is(200)
	f = w.follow(events, "Accept: application/x-ndjson", "Last-Event-ID: "+cursor)
	if line := f.line(); !strings.Contains(line, `"path":"work/two"`) {
		t.Errorf("%s", line)
	}
	f.close()
	w.do("GET", "/v1/files/watches/none/events", "").refused(404, "not_found")
	w.do("POST", "/v1/files/watches", `{"path":"work/one"}`).refused(422, "invalid")
	w.do("POST", "/v1/files/watches", `{"path":"work/none"}`).refused(404, "not_found")
	w.do("DELETE", a.text("links", "self"), "").is(204)
	w.do("GET", events, "").refused(404, "not_found")
}

// Whoever may only read changes no file; another tenant finds none, nor does a key for the names of some sessions.
func TestFilesOfOthers(t *testing.T) {
	requests := map[string]bool{ // whether it changes something
		"GET " + content("work/x"): false, "GET /v1/files?path=work": false, "GET /v1/files/stat?path=work/x": false,
		"GET /v1/files/search?path=work&name=x": false, "POST /v1/files/watches {\"path\":\"work\"}": false,
		"PUT " + content("work/x") + " new": true, "DELETE /v1/files?path=work/x": true,
		"GET /v1/files/upload?path=work/x&size=1&sha256=" + sumOf("X"):       true,
		"POST /v1/files/move {\"from\":\"work/x\",\"to\":\"work/y\"}":        true,
		"POST /v1/files/directory {\"path\":\"work/y\"}":                     true,
		"POST /v1/files/permissions {\"path\":\"work/x\",\"mode\":\"0777\"}": true,
		"DELETE /v1/files/watches/x":                                         true,
	}
	w := start(t, setup{})
	w.ok(os.WriteFile(filepath.Join(w.files, "x"), []byte("X"), 0o600))
	for who, key := range map[string]string{
		"reader":   keyText(w.key(reprise.DefaultTenant, "read")),
		"stranger": keyText(w.key("other", "read", "run")),
		"bounded":  keyText(w.key(reprise.DefaultTenant, "read:ci-", "run:ci-")),
	} {
		for request, changes := range requests {
			parts := append(strings.SplitN(request, " ", 3), "")
			w.with(key, func() {
				a := w.do(parts[0], parts[1], parts[2])
				switch {
				case who != "reader":
					a.refused(404, "not_found")
				case changes:
					a.refused(403, "forbidden")
				default:
					a.is(200)
				}
			})
		}
	}
	if text, err := os.ReadFile(filepath.Join(w.files, "x")); err != nil || string(text) != "X" {
		t.Errorf("%q, %v", text, err)
	}
}

func keyText(_, text string) string { return text }
