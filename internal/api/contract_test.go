package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"reprise/internal/api"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// contract holds requests and responses against openapi.yaml. It is one for all tests of
// the package, so that TestMain can say which documented answers nobody has seen.
type contract struct {
	root map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
	seen     map[string]bool // "GET /v1/streams/{name} 200"
}

// theContract is read once; a document that cannot be read fails every test.
var theContract = sync.OnceValue(func() *contract {
	var doc any
	if err := yaml.Unmarshal(api.OpenAPI(), &doc); err != nil {
		panic(err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	c := &contract{
		root: resource.(map[string]any), compiler: jsonschema.NewCompiler(),
		schemas: map[string]*jsonschema.Schema{}, seen: map[string]bool{},
	}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := c.compiler.AddResource("openapi.yaml", resource); err != nil {
		panic(err)
	}
	return c
})

// node is a place in the document: what is there, and the JSON pointer to it.
type node struct {
	pointer string
	value   map[string]any
}

// at finds the member of a node and follows a reference that is all there is.
func (c *contract) at(n node, names ...string) (node, bool) {
	for _, name := range names {
		child, ok := n.value[name].(map[string]any)
		if !ok {
			return node{}, false
		}
		escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		n = node{n.pointer + "/" + url.PathEscape(escaped), child}
		if ref, ok := child["$ref"].(string); ok && len(child) == 1 {
			n = c.follow(ref)
		}
	}
	return n, true
}

func (c *contract) follow(ref string) node {
	n := node{value: c.root}
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		value := n.value[name].(map[string]any)
		n = node{n.pointer + "/" + name, value}
	}
	return n
}

// validate holds a JSON value against the schema at n.
func (c *contract) validate(n node, value any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	schema := c.schemas[n.pointer]
	if schema == nil {
		var err error
		if schema, err = c.compiler.Compile("openapi.yaml#" + n.pointer); err != nil {
			return err
		}
		c.schemas[n.pointer] = schema
	}
	return schema.Validate(value)
}

func (c *contract) validateJSON(n node, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%q is no JSON: %w", text, err)
	}
	return c.validate(n, value)
}

// operation finds the operation of a request; path is its template.
func (c *contract) operation(method, escapedPath string) (path string, op, item node, known bool) {
	paths, _ := c.at(node{value: c.root}, "paths")
	for _, template := range slices.Sorted(maps.Keys(paths.value)) {
		if !matches(template, escapedPath) {
			continue
		}
		item, _ = c.at(paths, template)
		if method == http.MethodHead {
			method = http.MethodGet
		}
		op, known = c.at(item, strings.ToLower(method))
		return template, op, item, known
	}
	return "", node{}, node{}, false
}

func matches(template, escapedPath string) bool {
	want, got := strings.Split(template, "/"), strings.Split(escapedPath, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") && g != "" })
}

// parameters are those of an operation and of its path.
func (c *contract) parameters(item, op node) []map[string]any {
	var all []map[string]any
	for _, n := range []node{item, op} {
		list, _ := n.value["parameters"].([]any)
		for i, entry := range list {
			p := node{n.pointer + "/parameters/" + strconv.Itoa(i), entry.(map[string]any)}
			if ref, ok := p.value["$ref"].(string); ok {
				p = c.follow(ref)
			}
			value := maps.Clone(p.value)
			value["pointer"] = p.pointer
			all = append(all, value)
		}
	}
	return all
}

// checkRequest says what is wrong with a request by the document.
func (c *contract) checkRequest(item, op node, r *http.Request, body []byte) error {
	params := c.parameters(item, op)
	for name, values := range r.URL.Query() {
		i := slices.IndexFunc(params, func(p map[string]any) bool { return p["in"] == "query" && p["name"] == name })
		if i < 0 {
			return fmt.Errorf("query parameter %q is not in the document", name)
		}
		for _, value := range values {
			if err := c.checkParameter(params[i], value); err != nil {
				return fmt.Errorf("query parameter %s=%q: %w", name, value, err)
			}
		}
	}
	for _, p := range params {
		if value := r.Header.Get(p["name"].(string)); p["in"] == "header" && value != "" {
			if err := c.checkParameter(p, value); err != nil {
				return fmt.Errorf("header %s: %w", p["name"], err)
			}
		}
	}
	requestBody, ok := c.at(op, "requestBody")
	switch {
	case len(body) == 0 && ok && requestBody.value["required"] == true:
		return fmt.Errorf("a body is required")
	case len(body) == 0:
		return nil
	case !ok:
		return fmt.Errorf("no body is documented")
	}
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	schema, ok := c.at(requestBody, "content", mediaType, "schema")
	if !ok {
		if _, anything := c.at(requestBody, "content", "*/*"); anything {
			return nil
		}
		return fmt.Errorf("content type %q is not documented", mediaType)
	}
	if mediaType == "application/json" {
		return c.validateJSON(schema, body)
	}
	return nil
}

func (c *contract) checkParameter(p map[string]any, text string) error {
	schema, ok := c.at(node{p["pointer"].(string), p}, "schema")
	if !ok {
		return fmt.Errorf("the parameter has no schema")
	}
	switch schema.value["type"] {
	case "integer":
		return c.validateJSON(schema, []byte(text))
	case "array":
		return c.validate(schema, []any{text})
	}
	return c.validate(schema, text)
}

// checkResponse says what is wrong with a response by the document. The body of a
// stream may be cut anywhere.
func (c *contract) checkResponse(template string, op node, res *http.Response, body []byte) error {
	status := strconv.Itoa(res.StatusCode)
	response, ok := c.at(op, "responses", status)
	if !ok {
		return fmt.Errorf("status %s is not documented: %s", status, body)
	}
	c.mu.Lock()
	c.seen[strings.ToUpper(op.pointer[strings.LastIndexByte(op.pointer, '/')+1:])+" "+template+" "+status] = true
	c.mu.Unlock()
	headers, _ := c.at(response, "headers")
	for name := range headers.value {
		header, _ := c.at(headers, name)
		value := res.Header.Get(name)
		if value == "" && header.value["required"] == true {
			return fmt.Errorf("header %s is missing", name)
		}
		if value != "" {
			header.value["pointer"] = header.pointer
			if err := c.checkParameter(header.value, value); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
	}
	content, documented := c.at(response, "content")
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if !documented {
		if len(body) > 0 || mediaType != "" {
			return fmt.Errorf("a body that is not documented: %q %s", mediaType, body)
		}
		return nil
	}
	schema, ok := c.at(content, mediaType, "schema")
	if !ok {
		return fmt.Errorf("content type %q is not documented for status %s", mediaType, status)
	}
	if res.Request.Method == http.MethodHead {
		return nil
	}
	return c.checkBody(schema, mediaType, body)
}

func (c *contract) checkBody(schema node, mediaType string, body []byte) error {
	switch mediaType {
	case "application/json", "application/problem+json":
		return c.validateJSON(schema, body)
	case "application/x-ndjson":
		for line := range bytes.Lines(body) {
			if !bytes.HasSuffix(line, []byte("\n")) || len(line) == 1 {
				continue
			}
			if err := c.validateJSON(schema, line); err != nil {
				return err
			}
		}
	case "text/event-stream":
		types, _ := c.at(schema, "x-events")
		for frame := range strings.SplitSeq(string(body), "\n\n") {
			if err := c.checkFrame(types, frame); err != nil {
				return fmt.Errorf("%w in %q", err, frame)
			}
		}
	}
	return nil
}

// checkFrame holds the data of one SSE event against the schema of its type.
func (c *contract) checkFrame(types node, frame string) error {
	eventType, data := "", ""
	for line := range strings.SplitSeq(frame, "\n") {
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "event":
			eventType = value
		case "data":
			data = value
		}
	}
	if data == "" || !json.Valid([]byte(data)) { // a move of the cursor, a comment, or cut
		return nil
	}
	schema, ok := c.at(types, eventType)
	if !ok {
		schema, _ = c.at(types, "*")
	}
	return c.validateJSON(schema, []byte(data))
}

// RoundTripper that reports every deviation from the contract to a test.
type checkedTransport struct {
	tb   testing.TB
	base http.RoundTripper
}

func (t *checkedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = &checkedBody{ReadCloser: res.Body, done: func(answer []byte) { t.check(r, body, res, answer) }}
	return res, nil
}

func (t *checkedTransport) check(r *http.Request, body []byte, res *http.Response, answer []byte) {
	t.tb.Helper()
	c := theContract()
	name := r.Method + " " + r.URL.RequestURI()
	template, op, item, known := c.operation(r.Method, r.URL.EscapedPath())
	switch {
	case r.Method == http.MethodOptions:
	case template == "" && res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusForbidden:
		t.tb.Errorf("%s: status %d for a path that is not in the document", name, res.StatusCode)
	case template != "" && !known && res.StatusCode != http.StatusMethodNotAllowed &&
		res.StatusCode != http.StatusForbidden:
		t.tb.Errorf("%s: status %d for a method that is not in the document", name, res.StatusCode)
	case !known:
	default:
		if err := c.checkRequest(item, op, r, body); err != nil && res.StatusCode < 400 {
			t.tb.Errorf("%s: accepted with status %d, but by the document: %v", name, res.StatusCode, err)
		}
		if err := c.checkResponse(template, op, res, answer); err != nil {
			t.tb.Errorf("%s: status %d: %v", name, res.StatusCode, err)
		}
	}
}

// checkedBody collects what was read and has it checked when the body is closed.
type checkedBody struct {
	io.ReadCloser
	read bytes.Buffer
	once sync.Once
	done func([]byte)
}

func (b *checkedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Write(p[:n])
	return n, err
}

func (b *checkedBody) Close() error {
	b.once.Do(func() { b.done(b.read.Bytes()) })
	return b.ReadCloser.Close()
}

// The document and the routes know the same operations and query parameters.
func TestContractListsEveryRoute(t *testing.T) {
	c := theContract()
	inCode := map[string][]string{}
	for _, op := range api.Operations() {
		inCode[op.Method+" "+op.Path] = slices.Sorted(slices.Values(op.Query))
	}
	inDocument := map[string][]string{}
	paths, _ := c.at(node{value: c.root}, "paths")
	for path := range paths.value {
		item, _ := c.at(paths, path)
		for method := range item.value {
			if method == "parameters" {
				continue
			}
			op, _ := c.at(item, method)
			query := []string{}
			for _, p := range c.parameters(item, op) {
				if p["in"] == "query" {
					query = append(query, p["name"].(string))
				}
			}
			slices.Sort(query)
			inDocument[strings.ToUpper(method)+" "+path] = query
		}
	}
	if !maps.EqualFunc(inCode, inDocument, slices.Equal[[]string]) {
		t.Errorf("in the code:     %v\nin the document: %v", inCode, inDocument)
	}
}

// Every schema of the document can be compiled, and so is a schema.
func TestContractSchemasCompile(t *testing.T) {
	c := theContract()
	schemas, _ := c.at(node{value: c.root}, "components", "schemas")
	for name := range schemas.value {
		if _, err := c.compiler.Compile("openapi.yaml#/components/schemas/" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
