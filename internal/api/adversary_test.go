package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/identity"
)

// The adversarial suite sends every operation of openapi.yaml as principals that may not know of what a victim has:
// once with the victim's names, once with names that nobody has, in the path and in each parameter, header and member
// of a body that takes text. The two answers must be the same, and nothing of the victim's may be in them. What an
// operation takes is read from the document, so that a new one is tried without a change here.

// nameSet are the texts by which a request names things: those of a victim, or those of nobody.
type nameSet struct {
	word       string            // of streams, sessions, executions, labels and keys
	cursor     string            // a position in a stream
	page       map[string]string // the cursor of a list, by its path
	collection map[string]string // the id of something, by the path of its collection
}

// attempt is one request, described for a failure, and made for names.
type attempt struct {
	operation string
	varied    string // what of it holds a name beside the path, such as "body session"
	scope     identity.Scope
	request   func(*nameSet) wireRequest
}

// wireRequest is a request as fixture.do takes it.
type wireRequest struct {
	method, path, body string
	headers            []string
}

func (a *attempt) String() string { return strings.TrimSpace(a.operation + " " + a.varied) }

// plainBodies are the bodies with which operations do what they are for, where the document requires less or cannot
// say it.
var plainBodies = map[string]map[string]any{
	"POST /v1/executions":             {"argv": []any{"true"}, "session": ""},
	"POST /v1/executions interpreter": {"code": "1"},
	"POST /v1/executions stdin":       {"argv": []any{"cat"}},
	"POST /v1/interpreters":           {"language": "none", "session": ""},
	"POST /v1/executions/{id}/signal": {"signal": "CONT"},
	"POST /v1/executions/{id}/resize": {"cols": 80, "rows": 24},
	"POST /v1/streams/{name}/events":  {"type": "note", "data": 1},
	"POST /v1/streams/{name}/end":     {"outcome": "completed"},
	"POST /v1/streams/{name}/trim":    {},
	"POST /v1/webhooks":               {"url": "http://127.0.0.1:1/hook"},
	"POST /v1/schedules": {
		"cron": "@yearly", "execution": map[string]any{"argv": []any{"true"}, "session": ""},
	},
	"POST /v1/login":             {"token": "no-token-of-this-server"},
	"POST /v1/login/flows":       {"provider": "corp"},
	"POST /v1/files/permissions": {"path": "work/victim", "mode": "600"},
	"POST /v1/webhooks stream":   {"url": "http://127.0.0.1:1/hook", "source": "streams"},
	"POST /v1/webhooks prefix":   {"url": "http://127.0.0.1:1/hook", "source": "streams"},
}

// attempts are those on every operation of the document; ownSession is a session in which the adversary may make
// something.
func attempts(t *testing.T, ownSession string) []*attempt {
	t.Helper()
	c := theContract()
	paths, _ := c.at(node{value: c.root}, "paths")
	var all []*attempt
	for _, path := range slices.Sorted(maps.Keys(paths.value)) {
		item, _ := c.at(paths, path)
		for _, method := range slices.Sorted(maps.Keys(item.value)) {
			if method == "parameters" {
				continue
			}
			op, _ := c.at(item, method)
			all = append(all, attemptsOn(c, strings.ToUpper(method), path, item, op, ownSession)...)
		}
	}
	if len(all) < 2*len(api.Operations()) {
		t.Fatalf("only %d attempts on %d operations", len(all), len(api.Operations()))
	}
	return all
}

// attemptsOn are the attempts on one operation: with what its path names, and with a name in each place for text.
func attemptsOn(c *contract, method, path string, item, op node, session string) []*attempt {
	operation := method + " " + path
	scope, _ := op.value["x-scope"].(string)
	plain := func(varied string) map[string]any {
		body, known := plainBodies[operation+" "+varied]
		if !known {
			body, known = plainBodies[operation]
		}
		if !known {
			body = requiredBody(c, op)
		}
		return inSession(body, session)
	}
	make := func(varied string, vary func(r *wireRequest, body map[string]any, n *nameSet)) *attempt {
		return &attempt{operation, varied, identity.Scope(scope), func(n *nameSet) wireRequest {
			r := wireRequest{method: method, path: n.in(path)}
			_, member, _ := strings.Cut(varied, " ")
			body := plain(member)
			vary(&r, body, n)
			if body != nil {
				text, err := json.Marshal(body)
				if err != nil {
					panic(err)
				}
				r.body = string(text)
			}
			return r
		}}
	}
	all := []*attempt{make("", func(*wireRequest, map[string]any, *nameSet) {})}
	for _, p := range c.parameters(item, op) {
		name := p["name"].(string)
		switch p["in"] {
		case "query":
			all = append(all, make("query "+name, func(r *wireRequest, _ map[string]any, n *nameSet) {
				query := url.Values{name: {n.parameter(path, name)}}
				for _, other := range c.parameters(item, op) { // without which nothing is looked for
					if other["in"] == "query" && other["required"] == true {
						query.Set(other["name"].(string), n.parameter(path, other["name"].(string)))
					}
				}
				r.path += "?" + query.Encode()
			}))
		case "header":
			all = append(all, make("header "+name, func(r *wireRequest, _ map[string]any, n *nameSet) {
				r.headers = append(r.headers, name+": "+n.parameter(path, name))
			}))
		}
	}
	if method == http.MethodGet {
		all = append(all, make("header Accept", func(r *wireRequest, _ map[string]any, _ *nameSet) {
			r.headers = append(r.headers, "Accept: text/event-stream")
		}))
	}
	for _, member := range textMembers(c, op) {
		all = append(all, make("body "+member, func(_ *wireRequest, body map[string]any, n *nameSet) {
			setMember(body, member, n.word)
		}))
	}
	return all
}

// in is a path with the names of n in the place of its wildcards.
func (n *nameSet) in(path string) string {
	collection, _, _ := strings.Cut(path, "/{")
	id, known := n.collection[collection]
	if !known {
		id = n.word
	}
	if collection == "/v1/executions" && strings.Contains(path, "artifacts") {
		id = n.collection["artifacts"]
	}
	return strings.NewReplacer("{id}", id, "{name}", n.word, "{path}", n.word).Replace(path)
}

// parameter is the value of a parameter or header that is as dangerous as can be.
func (n *nameSet) parameter(path, name string) string {
	if path == "/v1/files/upload" && name == "size" {
		return fmt.Sprint(len(victimUpload))
	}
	switch name {
	case "sha256":
		return sumOf(victimUpload)
	case "cursor":
		if page, isList := n.page[path]; isList {
			return page
		}
		return n.cursor
	case "after", "Last-Event-ID":
		return n.cursor
	case "label":
		return n.word + "=" + n.word
	case "path", "text":
		return "work/" + n.word
	case "tenant":
		return string(reprise.DefaultTenant)[:1] + n.word // other tenants are asked for in TestQuotasAreShown
	case "Producer-Epoch", "Producer-Seq", "limit", "offset", "size", "cols", "rows", "seq":
		return "1"
	case "wait", "hold":
		return "1ms"
	}
	return n.word
}

// requiredBody is the smallest body that an operation takes, nil for none.
func requiredBody(c *contract, op node) map[string]any {
	schema, ok := jsonBody(c, op)
	if !ok {
		return nil
	}
	required, _ := schema.value["required"].([]any)
	body := map[string]any{}
	for _, name := range required {
		member, _ := c.at(schema, "properties", name.(string))
		switch member.value["type"] {
		case "integer", "number":
			body[name.(string)] = 1
		case "boolean":
			body[name.(string)] = true
		case "array":
			body[name.(string)] = []any{}
		case "object":
			body[name.(string)] = map[string]any{}
		default:
			body[name.(string)] = "work/none"
		}
	}
	return body
}

func jsonBody(c *contract, op node) (node, bool) {
	requestBody, ok := c.at(op, "requestBody")
	if !ok {
		return node{}, false
	}
	return c.at(requestBody, "content", "application/json", "schema")
}

// textMembers are the members of a body that hold text of the caller's choice, those of objects in it too.
func textMembers(c *contract, op node) []string {
	schema, ok := jsonBody(c, op)
	if !ok {
		return nil
	}
	return membersOf(c, schema, "", 0)
}

func membersOf(c *contract, schema node, prefix string, depth int) (members []string) {
	properties, _ := c.at(schema, "properties")
	for _, name := range slices.Sorted(maps.Keys(properties.value)) {
		member, ok := c.at(properties, name)
		if !ok {
			continue
		}
		kind, enum := member.value["type"], member.value["enum"]
		switch {
		case kind == "object" && depth == 0:
			members = append(members, membersOf(c, member, prefix+name+".", depth+1)...)
		case enum == nil && (kind == "string" || kind == nil):
			members = append(members, prefix+name)
		}
	}
	return members
}

func setMember(body map[string]any, member, value string) {
	outer, inner, nested := strings.Cut(member, ".")
	if nested {
		object, _ := body[outer].(map[string]any)
		object = maps.Clone(object)
		if object == nil {
			object = map[string]any{}
		}
		object[inner] = value
		body[outer] = object
		return
	}
	body[member] = value
}

// inSession is a body whose members "session" that are "" are session, or absent if that is "".
func inSession(body map[string]any, session string) map[string]any {
	if body == nil {
		return nil
	}
	body = maps.Clone(body)
	for name, value := range body {
		if object, ok := value.(map[string]any); ok {
			body[name] = inSession(object, session)
		}
	}
	if _, has := body["session"]; has {
		if body["session"] = session; session == "" {
			delete(body, "session")
		}
	}
	return body
}

// patience bounds each answer: one that goes on would be about something that is there.
const patience = 2 * time.Minute

// send sends a request without holding it against the document: much of it is nonsense.
func (w *fixture) send(r wireRequest, credential func(*http.Request)) *answer {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, w.url+r.path, strings.NewReader(r.body))
	w.ok(err)
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range r.headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	credential(req)
	res, err := w.client.Transport.(*checkedTransport).base.RoundTrip(req)
	w.ok(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatalf("%s %s %s: %v after %d %s", r.method, r.path, r.body, err, res.StatusCode, text)
	}
	return &answer{w, r.method + " " + r.path + " " + r.body, res.StatusCode, res.Header, string(text)}
}

// sameAnswer says how the answer about something hidden differs from that about what does not exist, "" for not at
// all. Of what was made, for the adversary itself, only the shape is compared.
func sameAnswer(got, want *answer, hidden, nobody *nameSet) string {
	same := nobody.replacedBy(hidden)
	if got.status != want.status {
		return fmt.Sprintf("%d %s, and for what does not exist %d %s", got.status, got.body, want.status, want.body)
	}
	made := got.status < 300 && !strings.HasPrefix(got.what, "GET")
	gotBody, wantBody := got.body, same.Replace(want.body)
	if made {
		gotBody, wantBody = shape(gotBody), shape(wantBody)
	}
	if gotBody != wantBody {
		return fmt.Sprintf("%d %s, and for what does not exist %s", got.status, got.body, wantBody)
	}
	if made {
		return ""
	}
	for name := range mergedKeys(got.header, want.header) {
		varies := name == "Date" || name == "X-Request-Id" || name == "Content-Length"
		if a, b := got.header.Get(name), same.Replace(want.header.Get(name)); a != b && !varies {
			return fmt.Sprintf("header %s is %q, and for what does not exist %q", name, a, b)
		}
	}
	return ""
}

func mergedKeys(a, b http.Header) http.Header {
	merged := maps.Clone(a)
	maps.Copy(merged, b)
	return merged
}

// replacedBy replaces each name of n by that of other.
func (n *nameSet) replacedBy(other *nameSet) *strings.Replacer {
	var pairs []string
	for collection, id := range n.collection {
		pairs = append(pairs, id, other.collection[collection])
	}
	for path, page := range n.page {
		pairs = append(pairs, page, other.page[path])
	}
	return strings.NewReplacer(append(pairs, n.cursor, other.cursor, n.word, other.word)...)
}

// texts are all names of n that are long enough to be found in an answer.
func (n *nameSet) texts() []string {
	texts := []string{n.word, n.cursor}
	texts = slices.AppendSeq(texts, maps.Values(n.collection))
	return slices.DeleteFunc(slices.AppendSeq(texts, maps.Values(n.page)), func(s string) bool { return len(s) < 6 })
}

// ofAnEnd are the members that an execution may have once it has ended, which it may have when its start is answered.
var ofAnEnd = []string{"error", "limit", "output_truncated", "processes_left", "artifacts", "artifact_notes"}

// shape is what an object has, without the values.
func shape(text string) string {
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) != nil {
		return ""
	}
	for _, name := range ofAnEnd {
		delete(object, name)
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(object)))
}
