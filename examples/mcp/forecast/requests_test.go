package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

var update = flag.Bool("update", false, "write the Postman collection anew, from requests.http")

const (
	requestsFile   = "../requests.http"
	collectionFile = "../postman.json"
)

// request is a request of the file, with variables in it.
type request struct {
	title, name, method, url string
	headers                  [][2]string
	body                     string
	status, contentType      string
	has, hasNot              []string
}

// parse reads a file of requests.
func parse(t *testing.T) []request {
	t.Helper()
	file, err := os.ReadFile(requestsFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []request
	for _, part := range strings.Split("\n"+string(file), "\n### ")[1:] {
		head, body, _ := strings.Cut(part, "\n\n")
		lines := strings.Split(head, "\n")
		r := request{title: lines[0], body: strings.TrimSpace(body)}
		for _, line := range lines[1:] {
			r.line(line)
		}
		if r.name == "" || r.status == "" || r.url == "" {
			t.Fatalf("%q has no name, no answer or no URL: %+v", r.title, r)
		}
		all = append(all, r)
	}
	return all
}

func (r *request) line(line string) {
	if strings.HasPrefix(line, "#") {
		comment := strings.TrimPrefix(line, "# ")
		if name, ok := strings.CutPrefix(comment, "@name "); ok {
			r.name = name
		} else if text, ok := strings.CutPrefix(comment, "=> has not "); ok {
			r.hasNot = append(r.hasNot, text)
		} else if text, ok := strings.CutPrefix(comment, "=> has "); ok {
			r.has = append(r.has, text)
		} else if answer, ok := strings.CutPrefix(comment, "=> "); ok {
			r.status, r.contentType, _ = strings.Cut(answer, " ")
		} else {
			r.title += " " + comment
		}
		return
	}
	if line == "" || strings.HasPrefix(line, "@") {
		return
	}
	if name, value, ok := strings.Cut(line, ": "); ok {
		r.headers = append(r.headers, [2]string{name, value})
		return
	}
	r.method, r.url, _ = strings.Cut(line, " ")
}

// variables are what a person pastes.
type variables map[string]string

var variable = regexp.MustCompile(`\{\{([^}]+)\}\}`)

func (v variables) fill(t *testing.T, text string) string {
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		value := v[strings.Trim(name, "{}")]
		if value == "" {
			t.Fatalf("%s has no value", name)
		}
		return value
	})
}

var eventID = regexp.MustCompile(`(?m)^id: ?(.+)$`)

// note keeps what later requests need of an answer.
func (v variables) note(name string, response *http.Response, body []byte) {
	v[name+"_session"] = response.Header.Get("Mcp-Session-Id")
	if ids := eventID.FindAllSubmatch(body, -1); ids != nil {
		v[name+"_first_id"], v[name+"_last_id"] = string(ids[0][1]), string(ids[len(ids)-1][1])
	}
}

func TestRequestsOfFileAreAnswered(t *testing.T) {
	log, err := reprise.Open(t.Context(), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	handler, err := serve(log, mcphttp.Versions, computer{100 * time.Millisecond, io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Close()
	web := httptest.NewServer(handler)
	defer web.Close()
	v := variables{"url": web.URL}
	for _, r := range parse(t) {
		t.Run(r.name, func(t *testing.T) { r.send(t, v) })
	}
}

func (r *request) send(t *testing.T, v variables) {
	out, err := http.NewRequestWithContext(t.Context(), r.method, v.fill(t, r.url), strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.headers {
		out.Header.Set(h[0], v.fill(t, h[1]))
	}
	response, err := http.DefaultClient.Do(out)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	v.note(r.name, response, body)
	if got := fmt.Sprint(response.StatusCode); got != r.status || response.Header.Get("Content-Type") != r.contentType {
		t.Errorf("the answer is %s %s, want %s %s", got, response.Header.Get("Content-Type"), r.status, r.contentType)
	}
	for _, text := range r.has {
		if !bytes.Contains(body, []byte(text)) {
			t.Errorf("the answer has no %s:\n%s", text, body)
		}
	}
	for _, text := range r.hasNot {
		if bytes.Contains(body, []byte(text)) {
			t.Errorf("the answer has %s:\n%s", text, body)
		}
	}
}

// TestPostmanCollectionEqualsFile holds the collection to the file.
func TestPostmanCollectionEqualsFile(t *testing.T) {
	want := collection(parse(t))
	if *update {
		if err := os.WriteFile(collectionFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(collectionFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what %s says; go test ./examples/mcp/forecast -update writes it", collectionFile,
			requestsFile)
	}
}

// remember is what Postman runs after each request: it keeps what is to be pasted elsewhere.
const remember = `const name = pm.info.requestName;
const session = pm.response.headers.get("Mcp-Session-Id");
if (session) pm.collectionVariables.set(name + "_session", session);
const ids = [...(pm.response.text() || "").matchAll(/^id: ?(.+)$/gm)].map((m) => m[1]);
if (ids.length > 0) {
  pm.collectionVariables.set(name + "_first_id", ids[0]);
  pm.collectionVariables.set(name + "_last_id", ids[ids.length - 1]);
}`

// collection is the Postman collection, of version 2.1, of the requests.
func collection(all []request) []byte {
	type object = map[string]any
	script := func(text string) []object {
		return []object{{
			"listen": "test",
			"script": object{"type": "text/javascript", "exec": strings.Split(text, "\n")},
		}}
	}
	var items []object
	for _, r := range all {
		headers := []object{}
		for _, h := range r.headers {
			headers = append(headers, object{"key": h[0], "value": h[1]})
		}
		out := object{
			"method": r.method, "url": object{"raw": r.url, "host": []string{r.url}}, "header": headers,
			"description": r.title,
		}
		if r.body != "" {
			out["body"] = object{"mode": "raw", "raw": r.body}
		}
		checks := []string{fmt.Sprintf(`pm.test("the answer is as it should be", () => {
  pm.response.to.have.status(%s);
  const text = pm.response.text() || "";`, r.status)}
		for _, text := range r.has {
			checks = append(checks, fmt.Sprintf("  pm.expect(text).to.include(%s);", quote(text)))
		}
		for _, text := range r.hasNot {
			checks = append(checks, fmt.Sprintf("  pm.expect(text).to.not.include(%s);", quote(text)))
		}
		items = append(items,
			object{"name": r.name, "request": out, "event": script(strings.Join(append(checks, "});"), "\n"))})
	}
	return append(indent(object{
		"info": object{
			"name":        "Reprise: an MCP call that is interrupted",
			"schema":      "https://schema.getpostman.com/json/collection/v2.1.0/collection.json",
			"description": "Made from requests.http; see README.md. Send the requests from the first to the last.",
		},
		"variable": []object{{"key": "url", "value": "http://127.0.0.1:8090/mcp"}},
		"event":    script(remember),
		"item":     items,
	}), '\n')
}

func quote(text string) string { return strings.TrimSpace(string(plain(text, ""))) }

func indent(v any) []byte { return bytes.TrimSpace(plain(v, "\t")) }

// plain is v as JSON that is not made safe for HTML.
func plain(v any, indent string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		panic(err) // texts and maps of them
	}
	return b.Bytes()
}
