package e2b_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/face/facetest"
)

// TestFiles are found by absolute paths, those below the directory of the server, and those below a tilde.
func TestFiles(t *testing.T) {
	w := start(t, nil)
	form := func(names ...string) string {
		var b strings.Builder
		for _, name := range names {
			b.WriteString("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n" +
				name + "\r\n")
		}
		return b.String() + "--x--\r\n"
	}
	multi := []string{"Content-Type", "multipart/form-data; boundary=x"}
	status, text := w.do("POST", "/files", form("a/one.txt", "~/two", w.Dir+"/three"), multi...)
	if status != 200 || !strings.Contains(text, `{"name":"one.txt","type":"file","path":"`+w.Dir+`/a/one.txt"}`) {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := w.do("POST", "/files?path=four", form("ignored"), multi...); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	octets := []string{"Content-Type", "application/octet-stream"}
	if status, text := w.do("POST", "/files?path=five", "\x00\xff", octets...); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for path, want := range map[string]string{
		"a/one.txt": "a/one.txt", "two": "~/two", w.Dir + "/three": w.Dir + "/three", "~/four": "ignored",
		"five": "\x00\xff",
	} {
		if status, text := w.do("GET", "/files?path="+url.QueryEscape(path), ""); status != 200 || text != want {
			t.Errorf("%s: %d %q", path, status, text)
		}
	}
	for _, r := range []struct {
		method, path, body string
		header             []string
		status             int
	}{
		{"GET", "/files", "", nil, 400},
		{"GET", "/files?path=none", "", nil, 404},
		{"GET", "/files?path=/etc/passwd", "", nil, 404},
		{"GET", "/files?path=a/../../x", "", nil, 404},
		{"GET", "/files?path=a", "", nil, 400},
		{"POST", "/files?path=/etc/x", "x", octets, 404},
		{"POST", "/files?path=a", "x", octets, 400},
		{"POST", "/files", "x", octets, 400},
		{"POST", "/files", "x", multi, 400},
		{"POST", "/files", form("../x"), multi, 404},
	} {
		status, text := w.do(r.method, r.path, r.body, r.header...)
		if status != r.status || !strings.Contains(text, `"message"`) {
			t.Errorf("%s %s: %d %s, want %d", r.method, r.path, status, text, r.status)
		}
	}
}

// TestFilesystem: each call, and what it refuses.
func TestFilesystem(t *testing.T) {
	w := start(t, nil)
	w.OK(os.WriteFile(filepath.Join(w.Dir, "file"), []byte("text"), 0o640))
	w.OK(os.Symlink("file", filepath.Join(w.Dir, "link")))
	const fs = "filesystem.Filesystem/"
	var shown struct {
		Entry struct {
			Name, Type, Path, Size, Permissions, SymlinkTarget string
			Mode                                               int
		}
	}
	w.OK(json.Unmarshal([]byte(w.call(200, fs+"Stat", `{"path":"file"}`)), &shown))
	e := shown.Entry
	if e.Name != "file" || e.Type != "FILE_TYPE_FILE" || e.Path != w.Dir+"/file" || e.Size != "4" || e.Mode != 0o640 ||
		e.Permissions != "-rw-r-----" {
		t.Errorf("%+v", e)
	}
	link := w.call(200, fs+"Stat", `{"path":"link"}`)
	if !strings.Contains(link, `"symlinkTarget":"file"`) || !strings.Contains(link, "FILE_TYPE_SYMLINK") {
		t.Error(link)
	}
	w.call(200, fs+"MakeDir", `{"path":"d/e/f"}`)
	w.call(409, fs+"MakeDir", `{"path":"d/e"}`)
	w.call(200, fs+"Move", `{"source":"file","destination":"d/g/file"}`)
	for depth, want := range map[string]int{`{"path":"d"}`: 2, `{"path":"d","depth":2}`: 4, `{"path":"d/e/f"}`: 0} {
		if list := w.call(200, fs+"ListDir", depth); strings.Count(list, `"name"`) != want {
			t.Errorf("%s: %s", depth, list)
		}
	}
	w.call(200, fs+"Remove", `{"path":"d"}`)
	for call, status := range map[string]int{
		`Stat{"path":"d"}`: 404, `Stat{}`: 400, `Stat{"path":"/etc"}`: 404, `ListDir{"path":"link"}`: 400,
		`ListDir{"path":"none"}`: 404, `Move{"source":"none","destination":"x"}`: 404,
		`Move{"source":"link","destination":"/x"}`: 404, `Stat{"path":1}`: 400, `CreateWatcher{"path":"link"}`: 404,
		`GetWatcherEvents{"watcherId":"x"}`: 404, `RemoveWatcher{"watcherId":"a b"}`: 404, `WatchFile{}`: 404,
	} {
		method, body, _ := strings.Cut(call, "{")
		w.call(status, fs+method, "{"+body)
	}
	w.token = facetest.Runner
	w.call(200, fs+"Stat", `{"path":"link"}`)
	w.token = facetest.Bounded
	w.call(404, fs+"Stat", `{"path":"link"}`)
}

// TestWatch: a stream and a watcher tell the same changes, a watcher each once, and only its owner.
func TestWatch(t *testing.T) {
	w := start(t, nil)
	w.OK(os.Mkdir(filepath.Join(w.Dir, "d"), 0o750))
	var made struct{ WatcherID string }
	w.OK(json.Unmarshal([]byte(w.call(200, "filesystem.Filesystem/CreateWatcher", `{"path":"d"}`)), &made))
	from := w.open("filesystem.Filesystem/WatchDir", `{"path":"d"}`)
	defer from.Close()
	next := func() event {
		t.Helper()
		for {
			e, err := readEvent(from)
			w.OK(err)
			if e.KeepAlive == nil {
				return e
			}
		}
	}
	if e := next(); e.Start == nil {
		t.Fatalf("the first event is %+v", e)
	}
	w.OK(os.WriteFile(filepath.Join(w.Dir, "d", "a"), nil, 0o600))
	if e := next(); e.Filesystem == nil || *e.Filesystem != (struct{ Name, Type string }{"a", "EVENT_TYPE_CREATE"}) {
		t.Errorf("%+v", e.Filesystem)
	}
	w.OK(os.Remove(filepath.Join(w.Dir, "d", "a")))
	if e := next(); e.Filesystem == nil || e.Filesystem.Type != "EVENT_TYPE_REMOVE" {
		t.Errorf("%+v", e.Filesystem)
	}
	get := func(status int) string {
		t.Helper()
		return w.call(status, "filesystem.Filesystem/GetWatcherEvents", `{"watcherId":"`+made.WatcherID+`"}`)
	}
	if first := get(200); strings.Count(first, `"name":"a"`) != 2 {
		t.Errorf("the watcher has %s", first)
	}
	if again := get(200); again != `{"events":[]}`+"\n" {
		t.Errorf("and again %s", again)
	}
	w.token = facetest.Runner
	get(404)
	w.token = facetest.Owner
	w.call(200, "filesystem.Filesystem/RemoveWatcher", `{"watcherId":"`+made.WatcherID+`"}`)
	get(404)
}
