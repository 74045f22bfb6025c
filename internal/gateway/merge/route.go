package merge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
)

// codeNotFound is the code of the specification for a resource that does not exist.
const codeNotFound = -32002

// route sends a request to the member that it names.
func (l *Link) route(ctx context.Context, m link.Message) {
	to, params, why := l.target(m)
	if why != nil {
		l.refuse(m.ID, why)
		return
	}
	switch m.Method {
	case wire.MethodSubscribe, wire.MethodUnsubscribe:
		to.want(wire.Text(params, "uri"), m.Method == wire.MethodSubscribe)
		if to.current() == nil { // it is notified when it is available again
			l.succeed(m.ID, emptyResult)
			return
		}
	}
	m.Params, m.Raw = params, wire.Request(wire.ID(m.ID), m.Method, params)
	for range 2 { // a session that ends while it is sent to is followed by another one
		s, err := to.connect(ctx)
		if err != nil {
			l.refuse(m.ID, failureOf(err))
			return
		}
		if s.forward(ctx, m) {
			return
		}
		select {
		case <-s.link.Done():
			to.release(s)
		case <-ctx.Done():
		}
	}
	l.refuse(m.ID, link.ErrEnded)
}

// failureOf returns err as an error response for a client.
func failureOf(err error) *wire.Failure {
	if f, ok := errors.AsType[*wire.Failure](err); ok {
		return f
	}
	return wire.Internal(wire.ReasonUnavailable, err.Error())
}

// target returns the member that a request is for, and the params with the name that the member knows.
func (l *Link) target(m link.Message) (*member, json.RawMessage, *wire.Failure) {
	switch m.Method {
	case wire.MethodCall, "prompts/get":
		return l.named(m.Params, "name", "_", wire.CodeInvalidParams)
	case "resources/read", wire.MethodSubscribe, wire.MethodUnsubscribe:
		return l.named(m.Params, "uri", "+", codeNotFound)
	case "completion/complete":
		ref := wire.Members(m.Params)["ref"]
		key, separator := "name", "_"
		if wire.Text(ref, "type") == "ref/resource" {
			key, separator = "uri", "+"
		}
		to, ref, why := l.named(ref, key, separator, wire.CodeInvalidParams)
		return to, wire.Edit(m.Params, func(p map[string]json.RawMessage) { p["ref"] = ref }), why
	}
	message := m.Method + " is not known to upstreams that are merged"
	return nil, nil, &wire.Failure{Code: wire.CodeMethodNotFound, Message: message}
}

// named returns the member whose name a member of params begins with, and the params without it.
func (l *Link) named(params json.RawMessage, key, separator string, code int) (
	*member, json.RawMessage, *wire.Failure,
) {
	whole := wire.Text(params, key)
	name, rest, ok := strings.Cut(whole, separator)
	for _, m := range l.members {
		if ok && m.Name == name {
			return m, wire.Edit(params, func(p map[string]json.RawMessage) { p[key] = wire.Compact(rest) }), nil
		}
	}
	message := fmt.Sprintf("%q is not known: it begins with the name of no upstream and %q", whole, separator)
	return nil, nil, &wire.Failure{Code: code, Message: message}
}

// want records that the client has subscribed to a resource, or has unsubscribed from it.
func (m *member) want(uri string, wants bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if wants {
		m.wanted[uri] = true
	} else {
		delete(m.wanted, uri)
	}
}

// withURI puts the name of a member in front of the member "uri" of an object, if it has one.
func withURI(raw json.RawMessage, name string) json.RawMessage {
	uri := wire.Text(raw, "uri")
	if uri == "" {
		return raw
	}
	return wire.Edit(raw, func(m map[string]json.RawMessage) { m["uri"] = wire.Compact(name + "+" + uri) })
}

// withURIs puts the name of a member in front of the URIs of the resources that a result names.
func withURIs(method string, result json.RawMessage, name string) json.RawMessage {
	if !strings.Contains(string(result), `"uri"`) {
		return result
	}
	switch method {
	case wire.MethodCall:
		return editEach(result, "content", func(c json.RawMessage) json.RawMessage { return contentWithURI(c, name) })
	case "resources/read":
		return editEach(result, "contents", func(c json.RawMessage) json.RawMessage { return withURI(c, name) })
	case "prompts/get":
		return editEach(result, "messages", func(message json.RawMessage) json.RawMessage {
			return wire.Edit(message, func(m map[string]json.RawMessage) {
				m["content"] = contentWithURI(m["content"], name)
			})
		})
	}
	return result
}

// contentWithURI puts the name of a member in front of the URI of a block of content that is a resource or a link.
func contentWithURI(content json.RawMessage, name string) json.RawMessage {
	switch wire.Text(content, "type") {
	case "resource_link":
		return withURI(content, name)
	case "resource":
		return wire.Edit(content, func(m map[string]json.RawMessage) { m["resource"] = withURI(m["resource"], name) })
	}
	return content
}

// editEach changes each element of an array that is a member of an object.
func editEach(raw json.RawMessage, key string, edit func(json.RawMessage) json.RawMessage) json.RawMessage {
	return wire.Edit(raw, func(m map[string]json.RawMessage) {
		var items []json.RawMessage
		if json.Unmarshal(m[key], &items) != nil {
			return
		}
		for i := range items {
			items[i] = edit(items[i])
		}
		m[key] = wire.Compact(items)
	})
}
