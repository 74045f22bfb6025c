package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/mcpapi"
	"reprise/mcp/mcphttp"
)

// content is in all that a victim has: output, events, labels, files.
const secretContent = "content-of-the-victim"

// victimUpload is what the victim is uploading, of which half has come.
const victimUpload = secretContent + secretContent

// uploadAt is where the upload of a file is.
func uploadAt(operation, word string) string {
	return fmt.Sprintf("/v1/files/%s?path=work%%2F%s&size=%d&sha256=%s", operation, word, len(victimUpload),
		sumOf(victimUpload))
}

// victimFixture is a server on which the default tenant has one of everything.
type victimFixture struct {
	*fixture
	hidden   nameSet // all that the victim has
	portrait string
	absent   int // how many names were made that nobody has
}

func newVictim(t *testing.T, s setup) *victimFixture {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	var handler *mcphttp.Handler
	s.mcp = func(log *reprise.Log) mcpapi.Sessions {
		var err error
		handler, err = mcphttp.New(log, mcphttp.Server(func(*http.Request) *mcp.Server { return server }), nil)
		if err != nil {
			t.Fatal(err)
		}
		return mcpapi.Sessions{{Name: "mcp", Handler: handler}}
	}
	v := &victimFixture{fixture: start(t, s)}
	t.Cleanup(func() { v.ok(handler.Close()) })
	v.hidden = nameSet{word: "victim-0000", page: map[string]string{}, collection: map[string]string{
		"/v1/executions": "victim-0000", "/v1/streams": "victim-0000", "/v1/sessions": "victim-0000",
	}}
	v.fillStreams()
	v.fillFiles()
	id := v.hidden.collection
	hook := `{"url":"http://127.0.0.1:1/` + secretContent + `"}`
	id["/v1/webhooks"] = v.do("POST", "/v1/webhooks", hook).is(201).text("id")
	id["/v1/schedules"] = v.do("POST", "/v1/schedules", fmt.Sprintf(
		`{"cron":"@yearly","execution":{"argv":["true"],"session":%q,"env":{"A":%q}}}`, v.hidden.word, secretContent),
	).is(201).text("id")
	id["/v1/keys"], _ = v.key(reprise.DefaultTenant, "read")
	id["/v1/mcp/sessions"] = beginMCP(t, handler)
	id["/v1/tasks"] = v.task("token", secretContent)
	v.portrait = v.look()
	return v
}

// fillStreams makes a stream, executions that run and that have ended, and an interpreter, and takes cursors.
func (v *victimFixture) fillStreams() {
	word, id := v.hidden.word, v.hidden.collection
	labels := fmt.Sprintf(`{%q:%q,"more":%q}`, word, word, secretContent)
	for _, name := range []string{word, "other-of-victim"} {
		v.do("PUT", "/v1/streams/"+name, `{"labels":`+labels+`}`).is(201)
		v.do("POST", "/v1/streams/"+name+"/events", `{"type":"note","data":"`+secretContent+`"}`).is(200)
	}
	tail := v.do("GET", "/v1/streams/"+word+"/events", "").is(200)
	v.hidden.cursor = tail.header.Get("Stream-Tail")
	start := func(id, more, key string) (keyed string) {
		named := fmt.Sprintf(`{"id":%q,"session":%q,"labels":%s,%s}`, id, word, labels, more)
		v.do("POST", "/v1/executions", named).is(201)
		return v.do("POST", "/v1/executions", fmt.Sprintf(`{"session":%q,"labels":%s,%s}`, word, labels, more),
			"Idempotency-Key: "+key).is(201).text("id")
	}
	dir := v.TempDir()
	v.ok(os.WriteFile(filepath.Join(dir, word), []byte(secretContent), 0o600))
	ends := fmt.Sprintf(`"command":"echo %s","cwd":%q,"artifacts":[%q]`, secretContent, dir, word)
	v.ended(start("victim-ended", ends, word+"-ended"))
	v.ended("victim-ended")
	keyed := start(word, `"command":"echo `+secretContent+`; cat","stdin_open":true`, word)
	id["artifacts"] = "victim-ended"
	v.do("POST", "/v1/interpreters", `{"id":"victim-shell","language":"bash","session":"`+word+`"}`).is(201)
	id["/v1/interpreters"] = "victim-shell"
	for path, list := range map[string]string{"/v1/executions": "executions", "/v1/streams": "streams"} {
		v.hidden.page[path] = v.do("GET", path+"?limit=1", "").is(200).text("next_cursor")
		if v.hidden.page[path] == "" {
			v.Fatalf("one page holds all %s", list)
		}
	}
	for _, run := range []string{word, keyed} { // what has come must not change any more
		v.eventually("its output is there", func() bool {
			return strings.Contains(v.do("GET", "/v1/executions/"+run+"/stdout", "").body, secretContent)
		})
	}
}

// fillFiles makes a file, an upload that has not ended, and a watch.
func (v *victimFixture) fillFiles() {
	path := url.QueryEscape("work/" + v.hidden.word)
	v.do("PUT", "/v1/files/content?path="+path, secretContent).is(200)
	v.do("PUT", uploadAt("content", v.hidden.word)+"&offset=0", secretContent).is(200)
	v.hidden.collection["/v1/files/watches"] = v.do("POST", "/v1/files/watches", `{"path":"work"}`).is(200).text("id")
}

func beginMCP(t *testing.T, handler http.Handler) string {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
			`"clientInfo":{"name":"`+secretContent+`","version":"2"}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	return answer.Header().Get("Mcp-Session-Id")
}

// nobody are names like those of the victim that nothing has, others each time.
func (v *victimFixture) nobody() *nameSet {
	v.absent++
	n := nameSet{
		word:   fmt.Sprintf("vacant-%04d", v.absent),
		cursor: unlike(v.hidden.cursor), page: map[string]string{}, collection: map[string]string{},
	}
	for collection, id := range v.hidden.collection {
		n.collection[collection] = unlike(id)
		if id == v.hidden.word {
			n.collection[collection] = n.word
		}
	}
	maps.Copy(n.page, v.hidden.page) // they name a moment or a stream, and grant nothing
	return &n
}

// unlike is another text of the same length and alphabet, be that base32 or Crockford's.
func unlike(text string) string {
	b := []byte(text)
	for i := len(b) / 2; i < len(b); i++ {
		switch c := b[i]; {
		case c == '7':
			b[i] = '2'
		case c >= '2' && c < '7', c >= 'a' && c < 'h', c >= 'A' && c < 'H':
			b[i] = c + 1
		}
	}
	return string(b)
}

// volatile is what of a portrait changes by itself.
var volatile = regexp.MustCompile(`"(usage|last_used|idle_since|bytes_kept|next_cursor|expires)":("[^"]*"|\{[^}]*\}|[0-9]+)`)

// look is all that the victim sees of what it has.
func (v *victimFixture) look() string {
	var b strings.Builder
	for _, path := range []string{
		"/v1/executions?session=" + v.hidden.word, "/v1/streams/" + v.hidden.word, "/v1/streams/other-of-victim",
		"/v1/executions/" + v.hidden.word, "/v1/executions/victim-ended", "/v1/executions/" + v.hidden.word + "/stdout",
		"/v1/interpreters", "/v1/webhooks/" + v.hidden.collection["/v1/webhooks"], "/v1/sessions/" + v.hidden.word,
		"/v1/schedules/" + v.hidden.collection["/v1/schedules"], "/v1/mcp/sessions",
		"/v1/files/content?path=work%2F" + v.hidden.word, "/v1/keys/" + v.hidden.collection["/v1/keys"],
		uploadAt("upload", v.hidden.word), "/v1/tasks/" + v.hidden.collection["/v1/tasks"],
	} {
		a := v.do("GET", path, "").is(200)
		fmt.Fprintf(&b, "%s: %s\n", path, volatile.ReplaceAllString(a.body, ""))
	}
	return b.String()
}

// untouchedByAll checks that the victim sees what it saw before.
func (v *victimFixture) untouchedByAll() {
	v.Helper()
	if now := v.look(); now != v.portrait {
		was, is := strings.Split(v.portrait, "\n"), strings.Split(now, "\n")
		for i := range was {
			if was[i] != is[i] {
				v.Errorf("the victim had  %s\nand has now     %s", was[i], is[i])
			}
		}
	}
	id := v.hidden.collection["/v1/files/watches"]
	req := wireRequest{method: "GET", path: "/v1/files/watches/" + id + "/events?limit=1"}
	if a := v.send(req, bearer(token)); a.status != 200 {
		v.Errorf("the watch of the victim: %d %s", a.status, a.body)
	}
}

// bearer shows a token or key.
func bearer(credential string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+credential) }
}
