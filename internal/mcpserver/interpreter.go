package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/client"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
)

// maxInterpreterName bounds the name of an interpreter in bytes.
const maxInterpreterName = 64

// endPatience bounds how long code waits for the end event of an interpreter whose process has ended. Descendants that
// hold its output open delay the event by ten seconds at most.
const endPatience = 15 * time.Second

// interpreterOf returns the interpreter that a call names, and opens one if none is running. Each session, language and
// directory dir has separate names, so that no session learns the names of another. fresh is true if this call has
// opened the interpreter. The caller may start runs in the session.
func (s *Server) interpreterOf(ctx context.Context, c *caller, in *runInput, dir string) (
	id string, fresh bool, err error,
) {
	// If two calls find the interpreter ended, the second must not remove the one that the first has opened.
	s.opening.Lock()
	defer s.opening.Unlock()
	language := in.language()
	name := []string{"mcp interpreter", language, in.Session, in.Interpreter}
	if dir != "" {
		name = append(name, dir)
	}
	q := interpreter.Request{
		Language: language, Session: in.Session, Cwd: dir, IdempotencyKey: strings.Join(name, "\x00"),
	}
	for {
		i, created, err := interpreter.Open(ctx, s.host, c.who.Holder(), q)
		if err != nil || i.Status != execution.StatusEnded {
			return i.ID, created, err
		}
		if err := s.host.Remove(ctx, c.tenant, i.ID); err != nil { // the runs of its code stay
			return "", false, err
		}
	}
}

// startInside starts r in the interpreter of directory dir that in names.
func (s *Server) startInside(ctx context.Context, c *caller, in *runInput, dir string, r execution.Request) (
	started, error,
) {
	r.Session, r.Language, r.Interpreter = "", "", "any"
	if len(in.Interpreter) > maxInterpreterName {
		return started{}, &execution.FieldError{Field: "interpreter", Reason: "at most 64 bytes are taken"}
	}
	if err := r.Validate(); err != nil { // before one is opened
		return started{}, err
	}
	for again := false; ; again = true {
		id, fresh, err := s.interpreterOf(ctx, c, in, dir)
		if err != nil {
			return started{}, err
		}
		r.Interpreter = id
		x, created, err := s.host.StartFor(ctx, c.who.Holder(), r)
		if errors.Is(err, reprise.ErrEnded) && !again { // its end event may not be there yet
			if err := s.await(ctx, c.tenant, id, endPatience); err != nil {
				return started{}, err
			}
			continue
		}
		return started{caller: *c, x: x, created: created, fresh: fresh}, err
	}
}

// valueText is the text of a value of code in an interpreter. Forms that are no text are named.
func valueText(r *client.Result) []byte {
	var b []byte
	text, isText := r.MIME["text/plain"].(string)
	if isText {
		b = append(append(b, text...), '\n')
	}
	for _, kind := range slices.Sorted(maps.Keys(r.MIME)) {
		if value, ok := r.MIME[kind].(string); ok && isImage(kind) {
			b = fmt.Appendf(b, "[%s of %d bytes]\n", kind, base64.StdEncoding.DecodedLen(len(value)))
		} else if !isText {
			b = fmt.Appendf(b, "[a value in %s]\n", kind)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Omitted)) {
		b = fmt.Appendf(b, "[%s of %d bytes, too large to be kept]\n", kind, r.Omitted[kind])
	}
	return b
}

// isImage reports whether a host can show a model data of this type. Its value is base64.
func isImage(kind string) bool {
	return kind == "image/png" || kind == "image/jpeg" || kind == "image/gif" || kind == "image/webp"
}

const (
	// mostImages and mostImageBytes bound the images in an answer.
	mostImages     = 4
	mostImageBytes = 1 << 20
)

// images are the images of an answer. The text of the answer names all of them; see valueText.
type images struct {
	content []mcp.Content
	bytes   int
}

// take adds the images of an event, as far as there is room.
func (i *images) take(e *reprise.Event) {
	var r client.Result
	if e.Type != "result" && e.Type != "display" || json.Unmarshal(e.Data, &r) != nil {
		return
	}
	for _, kind := range slices.Sorted(maps.Keys(r.MIME)) {
		value, ok := r.MIME[kind].(string)
		if !ok || !isImage(kind) || len(i.content) >= mostImages {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(value)
		if err == nil && i.bytes+len(data) <= mostImageBytes {
			i.bytes += len(data)
			i.content = append(i.content, &mcp.ImageContent{MIMEType: kind, Data: data})
		}
	}
}

// said returns the output in an event and its channel, or "" for other events. The values of code in an interpreter are
// text on stdout, and its exceptions are text on stderr, as "reprise run" prints them.
func said(e *reprise.Event) (channel string, data []byte) {
	switch e.Type {
	case execution.Stdout, execution.Stderr:
		return e.Type, e.Data
	case "result", "display":
		var r client.Result
		if json.Unmarshal(e.Data, &r) == nil {
			if text := valueText(&r); text != nil {
				return execution.Stdout, text
			}
		}
	case "exception":
		var x client.Exception
		if json.Unmarshal(e.Data, &x) == nil {
			return execution.Stderr, []byte(strings.Join(x.Traceback, "\n") + "\n")
		}
	}
	return "", nil
}
