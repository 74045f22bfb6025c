package execd_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"testing"
)

// form is the body of an upload: a path and its bytes by turns.
func form(t *testing.T, parts ...string) (body, header string) {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for n := 0; n < len(parts); n += 2 {
		for _, p := range []struct{ name, kind, text string }{
			{"metadata", "application/json", parts[n]}, {"file", "application/octet-stream", parts[n+1]},
		} {
			head := textproto.MIMEHeader{}
			head.Set("Content-Disposition", `form-data; name="`+p.name+`"; filename="`+p.name+`"`)
			head.Set("Content-Type", p.kind)
			part, err := form.CreatePart(head)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = part.Write([]byte(p.text)) // of a buffer
		}
	}
	_ = form.Close()
	return b.String(), "Content-Type: " + form.FormDataContentType()
}

// TestFiles: the calls that the SDKs make.
func TestFiles(t *testing.T) {
	w := start(t, nil)
	one, two := w.Dir+"/x/one.txt", w.Dir+"/two.bin"
	body, header := form(t, `{"path":`+quoted(one)+`,"mode":640}`, "hello\nworld\n", `{"path":"two.bin"}`, "0123456789")
	must(w, "POST", "/files/upload", body, header)
	var info map[string]struct {
		Path, Type, Owner string
		Size              int
		Mode              int
	}
	w.OK(json.Unmarshal([]byte(must(w, "GET", "/files/info?path="+one+"&path=~/two.bin", "")), &info))
	if f := info[one]; f.Path != one || f.Type != "file" || f.Size != 12 || f.Mode != 640 || f.Owner == "" {
		t.Errorf("info: %+v", info)
	}
	if f := info["~/two.bin"]; f.Path != two || f.Mode != 644 {
		t.Errorf("info: %+v", info)
	}
	if got := must(w, "GET", "/files/info", ""); got != "{}\n" {
		t.Errorf("info of nothing: %s", got)
	}
	status, text, h := w.do("GET", "/files/download?path="+two, "", "Range: bytes=2-4")
	if status != http.StatusPartialContent || text != "234" || h.Get("Content-Range") != "bytes 2-4/10" {
		t.Errorf("range: %d %q %v", status, text, h)
	}
	if got := must(w, "GET", "/files/download?path="+one+"&offset=2&limit=5", ""); got != "world" {
		t.Errorf("lines: %q", got)
	}
	text = must(w, "POST", "/files/replace?verbose=true", `{`+quoted(one)+`:{"old":"o","new":"0"}}`)
	if !strings.Contains(text, `{"replacedCount":2}`) {
		t.Errorf("replaced: %s", text)
	}
	must(w, "POST", "/files/mv", `[{"src":`+quoted(one)+`,"dest":`+quoted(w.Dir+"/y/z/1")+`}]`)
	if text, err := os.ReadFile(w.Dir + "/y/z/1"); err != nil || string(text) != "hell0\nw0rld\n" {
		t.Errorf("%q, %v", text, err)
	}
	must(w, "POST", "/files/permissions", `{`+quoted(two)+`:{"mode":600}}`)
	must(w, "POST", "/directories", `{`+quoted(w.Dir+"/made/up")+`:{"mode":750}}`)
	var found []struct{ Path string }
	w.OK(json.Unmarshal([]byte(must(w, "GET", "/files/search?path="+w.Dir+"&pattern=[12t]*", "")), &found))
	if len(found) != 2 || found[0].Path != two || found[1].Path != w.Dir+"/y/z/1" {
		t.Errorf("found: %v", found)
	}
	w.OK(json.Unmarshal([]byte(must(w, "GET", "/directories/list?depth=2&path="+w.Dir, "")), &found))
	var names []string
	for _, f := range found {
		names = append(names, strings.TrimPrefix(f.Path, w.Dir))
	}
	if got := strings.Join(names, " "); got != "/made /made/up /two.bin /x /y /y/z" {
		t.Errorf("listed: %s", got)
	}
	must(w, "DELETE", "/files?path="+two+"&path="+w.Dir+"/missing", "")
	must(w, "DELETE", "/directories?path="+w.Dir+"/y", "")
	if left, err := os.ReadDir(w.Dir); err != nil || len(left) != 3 { // made, x, and where uploads are collected
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestFilesAreRefused: with the status and the code of execd, and nothing outside the roots is touched.
func TestFilesAreRefused(t *testing.T) {
	w := start(t, nil)
	w.write("file", "text")
	w.OK(os.Mkdir(w.Dir+"/dir", 0o700))
	w.OK(os.Symlink("/etc", w.Dir+"/link"))
	beside := w.Dir + "-beside" // is not -beside below the root
	w.OK(os.Mkdir(w.Dir+"/-beside", 0o700))
	for _, r := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/files/info?path=/etc/passwd", "", 404, "FILE_NOT_FOUND"},
		{"GET", "/files/info?path=" + beside, "", 404, "FILE_NOT_FOUND"},
		{"GET", "/files/info?path=~/../../etc/passwd", "", 404, "FILE_NOT_FOUND"},
		{"GET", "/files/download?path=link/passwd", "", 403, "RUNTIME_ERROR"},
		{"GET", "/files/download?path=none", "", 404, "FILE_NOT_FOUND"},
		{"GET", "/files/download", "", 400, "MISSING_QUERY"},
		{"GET", "/files/download?path=dir", "", 400, "INVALID_FILE"},
		{"GET", "/files/download?path=file&offset=0", "", 400, "INVALID_REQUEST_BODY"},
		{"GET", "/files/search?path=none", "", 404, "FILE_NOT_FOUND"},
		{"GET", "/files/search?path=dir&pattern=[", "", 400, "INVALID_FILE"},
		{"DELETE", "/files?path=dir", "", 500, "RUNTIME_ERROR"},
		{"DELETE", "/files", "", 400, "MISSING_QUERY"},
		{"DELETE", "/directories?path=.", "", 400, "INVALID_FILE"},
		{"GET", "/directories/list?path=file", "", 400, "INVALID_FILE"},
		{"GET", "/directories/list?path=link", "", 400, "INVALID_FILE"},
		{"GET", "/directories/list?path=dir&depth=-1", "", 400, "INVALID_REQUEST_BODY"},
		{"POST", "/files/mv", `[{"src":"file","dest":"dir"}]`, 500, "RUNTIME_ERROR"},
		{"POST", "/files/mv", `[{"src":"none","dest":"x"}]`, 404, "FILE_NOT_FOUND"},
		{"POST", "/files/mv", `{"src":1}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/files/permissions", `{"file":{"mode":999}}`, 400, "INVALID_FILE_METADATA"},
		{"POST", "/files/permissions", `{"file":{"owner":"nobody-else"}}`, 400, "INVALID_FILE_METADATA"},
		{"POST", "/files/permissions", `{"/etc/passwd":{"mode":777}}`, 404, "FILE_NOT_FOUND"},
		{"POST", "/files/replace", `{"file":{"old":"","new":"x"}}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/files/upload", "no form", 400, "INVALID_FILE"},
		{"POST", "/directories", `{"x":{"group":"nobody-else"}}`, 400, "INVALID_FILE_METADATA"},
	} {
		status, text, _ := w.do(r.method, r.path, r.body)
		if status != r.status || !strings.Contains(text, `"code":"`+r.code+`"`) {
			t.Errorf("%s %s %s: %d %s", r.method, r.path, r.body, status, text)
		}
	}
	if status, text, _ := w.do("GET", "/files/download?path=file", "", "Range: bytes=9-"); status != 416 ||
		!strings.Contains(text, "UNKNOWN") {
		t.Errorf("range: %d %s", status, text)
	}
	body, header := form(t, `{"path":"/etc/made-by-a-test"}`, "text")
	if status, text, _ := w.do("POST", "/files/upload", body, header); status != http.StatusNotFound {
		t.Errorf("upload: %d %s", status, text)
	}
}
