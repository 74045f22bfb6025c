package web

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/jsonscan"
	"reprise/internal/problem"
)

// The media types of bodies and answers.
const (
	JSON   = "application/json"
	HTML   = "text/html"
	NDJSON = "application/x-ndjson"
	SSE    = "text/event-stream"
)

// Body returns the body of the request, which fails with *http.MaxBytesError beyond
// limit bytes and when the client pauses for longer than BodyTimeout (see Options).
func (x *Exchange) Body(limit int64) (io.Reader, error) {
	if x.R.ContentLength > limit {
		return nil, problem.PayloadTooLarge(limit)
	}
	return http.MaxBytesReader(x.W, x.R.Body, limit), nil
}

// ReadBody reads a whole body of at most limit bytes.
func (x *Exchange) ReadBody(limit int64) ([]byte, error) {
	body, err := x.Body(limit)
	if err != nil {
		return nil, err
	}
	if n := x.R.ContentLength; n >= 0 { // at most limit
		text := make([]byte, n)
		if _, err := io.ReadFull(body, text); err != nil {
			return nil, BodyError(err)
		}
		return text, nil
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, BodyError(err)
	}
	return text, nil
}

// BodyError classifies the errors of reading a body.
func BodyError(err error) error {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return err
	}
	if errors.Is(err, identity.ErrUnauthenticated) { // meanwhile
		return err
	}
	return BadRequest("", "the body did not arrive whole")
}

// MediaType returns the media type of the body, in lower case and without parameters, or "".
func MediaType(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	switch header { // which need no parsing
	case JSON:
		return JSON
	case NDJSON:
		return NDJSON
	}
	if parsed, _, err := mime.ParseMediaType(header); err == nil {
		return parsed
	}
	return strings.ToLower(strings.TrimSpace(header))
}

// DecodeBody reads a body of JSON into v, a pointer to a struct, strictly.
func (x *Exchange) DecodeBody(v any) error {
	text, err := x.ReadBody(x.mux.opts.MaxBody)
	if err != nil {
		return err
	}
	return DecodeAs(MediaType(x.R), text, v)
}

// DecodeOptional is DecodeBody for a body that need not be there.
func (x *Exchange) DecodeOptional(v any) error {
	text, err := x.ReadBody(x.mux.opts.MaxBody)
	if err != nil || len(text) == 0 {
		return err
	}
	return DecodeAs(MediaType(x.R), text, v)
}

// DecodeAs is Decode for a body of the only accepted media type.
func DecodeAs(mediaType string, text []byte, v any) error {
	if mediaType != JSON && (mediaType != "" || len(text) > 0) { // Decode refuses a request without a body
		return InvalidStatus(http.StatusUnsupportedMediaType, "the body has to be "+JSON)
	}
	return Decode(text, v)
}

// Decode reads JSON into v, a pointer to a struct. Text that is not JSON is refused with status 400. Unknown members
// and values of another type are refused with 422 and the path of the member, and so are values of any type that are
// nested more than jsonscan.MaxDepth levels deep. Unlike encoding/json, Decode compares names exactly, and takes an
// integer however it is written: 7.0 and 1e3, as JSON Schema does.
func Decode(text []byte, v any) error {
	if err := CheckJSON(text); err != nil {
		return err
	}
	c := checker{text: text}
	if err := c.value("", 0, len(text), reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	if err := json.Unmarshal(c.plain(0, len(text)), v); err != nil {
		return Unprocessable("", err.Error())
	}
	return nil
}

// CheckJSON refuses text that is not JSON in UTF-8.
func CheckJSON(text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return BadRequest("", "a body of JSON is needed")
	}
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if ok && jsonscan.Depth(text[:syntax.Offset]) > jsonscan.MaxDepth { // encoding/json stops at 10,000
		return Unprocessable("", fmt.Sprintf("the body: byte %d: %s", syntax.Offset, tooDeep))
	}
	if ok {
		return BadRequest("", fmt.Sprintf("the body is no JSON: byte %d: %v", syntax.Offset, syntax))
	}
	if err != nil || !utf8.Valid(text) {
		return BadRequest("", "the body is no JSON in UTF-8")
	}
	return nil
}

// tooDeep is the refusal of a value that many decoders could not read.
var tooDeep = fmt.Sprintf("arrays and objects are nested more than %d levels deep", jsonscan.MaxDepth)

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// checker walks through a JSON text along the type that it is for, so that a refusal can name the member.
type checker struct {
	text     []byte
	integers []integer // those that encoding/json does not take as they are, in order
}

// integer is a number that is written in another form than digits.
type integer struct {
	from, to int
	digits   string
}

// plain returns a part of the text with its integers as digits.
func (c *checker) plain(from, to int) []byte {
	var out []byte
	for _, n := range c.integers {
		if n.from >= from && n.to <= to {
			out = append(append(out, c.text[from:n.from]...), n.digits...)
			from = n.to
		}
	}
	if out == nil {
		return c.text[from:to]
	}
	return append(out, c.text[from:to]...)
}

// value checks the value between two indexes. path is "" at the top.
func (c *checker) value(path string, from, to int, t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	text := c.text[from:to]
	switch {
	case t == reflect.TypeFor[json.RawMessage](): // any value
		if jsonscan.Depth(text) > jsonscan.MaxDepth {
			return Unprocessable(path, named(path)+tooDeep)
		}
		return nil
	case string(text) == "null":
		return Unprocessable(path, named(path)+"null does not belong here")
	case t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(textUnmarshaler):
		known := fieldsByName(t)
		return c.members(path, from, to, func(name string) reflect.Type { return known[name] })
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return c.items(path, from, to, t.Elem())
	case t.Kind() == reflect.Map && isInteger(t.Elem()):
		if err := c.members(path, from, to, func(string) reflect.Type { return t.Elem() }); err != nil {
			return err
		}
	case isInteger(t):
		if err := c.integer(path, from, to); err != nil {
			return err
		}
	}
	err := json.Unmarshal(c.plain(from, to), reflect.New(t).Interface())
	if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Unprocessable(path, named(path)+withArticle(mistyped.Value)+" does not belong here")
	}
	if err != nil {
		return Unprocessable(path, named(path)+err.Error())
	}
	if hasLoneSurrogate(text) {
		return Unprocessable(path, named(path)+"an escape such as \\ud800 is half of a character")
	}
	return nil
}

func isInteger(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64 }

// integer notes the digits of an integer that has a fraction or an exponent.
func (c *checker) integer(path string, from, to int) error {
	number := string(c.text[from:to])
	if strings.ContainsAny(number, "\"[{tfn") || !strings.ContainsAny(number, ".eE") {
		return nil // it is none, or is taken as it is
	}
	digits, err := jsonscan.Integer(number)
	if err != nil {
		return Unprocessable(path, named(path)+httpserver.Clip(number, 64)+" does not belong here: "+err.Error())
	}
	c.integers = append(c.integers, integer{from, to, digits})
	return nil
}

// hasLoneSurrogate reports whether text, which is JSON, escapes a UTF-16 surrogate without its other half.
// encoding/json replaces it with U+FFFD.
func hasLoneSurrogate(text []byte) bool {
	high := false // the previous character is an escaped high surrogate
	for i := 0; i < len(text); i++ {
		var unit uint64
		if text[i] == '\\' {
			i++
			if text[i] == 'u' {
				unit, _ = strconv.ParseUint(string(text[i+1:i+5]), 16, 16)
				i += 4
			}
		}
		isLow := 0xdc00 <= unit && unit < 0xe000
		if high != isLow {
			return true
		}
		high = 0xd800 <= unit && unit < 0xdc00
	}
	return false // after a high surrogate comes at least the closing quote
}

// withArticle returns the name of a JSON type, as in errors of encoding/json, with its article: "an object", "a number
// 1.5".
func withArticle(kind string) string {
	switch kind {
	case "object", "array":
		return "an " + kind
	case "bool":
		return "a boolean"
	}
	return "a " + kind
}

func named(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

// members checks an object. member returns the type of the member of that name, nil if there is none.
func (c *checker) members(path string, from, to int, member func(name string) reflect.Type) error {
	decoder := json.NewDecoder(bytes.NewReader(c.text[from:to]))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return Unprocessable(path, named(path)+"an object is expected")
	}
	var seen []string
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return BadRequest(path, err.Error())
		}
		name, _ := token.(string) // a name is all that can stand here
		at := join(path, name)
		t := member(name)
		switch {
		case t == nil:
			return Unprocessable(httpserver.Clip(at, 128), "there is no such member")
		case slices.Contains(seen, name):
			return Unprocessable(at, "the member is given twice")
		}
		seen = append(seen, name)
		if err := c.next(decoder, at, from, t); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) items(path string, from, to int, item reflect.Type) error {
	decoder := json.NewDecoder(bytes.NewReader(c.text[from:to]))
	if open, err := decoder.Token(); err != nil || open != json.Delim('[') {
		return Unprocessable(path, named(path)+"an array is expected")
	}
	for i := 0; decoder.More(); i++ {
		if err := c.next(decoder, path+"["+strconv.Itoa(i)+"]", from, item); err != nil {
			return err
		}
	}
	return nil
}

// next checks the next value of a decoder that has begun to read at an index.
func (c *checker) next(decoder *json.Decoder, path string, from int, t reflect.Type) error {
	var value json.RawMessage
	if err := decoder.Decode(&value); err != nil {
		return BadRequest(path, err.Error())
	}
	end := from + int(decoder.InputOffset())
	return c.value(path, end-len(value), end, t)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// fieldsByName are the members that encoding/json knows of a struct without embedded ones.
func fieldsByName(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "-" {
			fields[name] = field.Type
		}
	}
	return fields
}
