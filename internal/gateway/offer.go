package gateway

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"reprise/internal/gateway/wire"
	"reprise/internal/pattern"
)

// offers reports whether Upstream.Tools offers a tool, by the name that clients call it by.
func (u *Upstream) offers(tool string) bool {
	from := u.Name
	if len(u.Merge) > 0 {
		from, tool, _ = strings.Cut(tool, "_")
	}
	tool = noSlash(tool)
	offered := !slices.ContainsFunc(u.Tools, func(p string) bool { return !strings.HasPrefix(p, "!") })
	for _, p := range u.Tools {
		p, excludes := strings.CutPrefix(p, "!")
		glob, name, ok := strings.Cut(p, "/")
		if !ok {
			glob, name = "*", p
		}
		in, _ := path.Match(glob, from) // the patterns are valid
		is, _ := path.Match(noSlash(name), tool)
		switch {
		case in && is && excludes:
			return false
		case in && is:
			offered = true
		}
	}
	return offered
}

// noSlash replaces slashes, which no * of path.Match matches.
func noSlash(text string) string { return strings.ReplaceAll(text, "/", "\x00") }

// invalidTools returns the error in Tools, or "".
func (u *Upstream) invalidTools() string {
	for _, p := range u.Tools {
		name := strings.TrimPrefix(p, "!")
		err := pattern.CheckGlob(name)
		if err == nil && (name == "" || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/")) {
			err = path.ErrBadPattern
		}
		if err != nil {
			return fmt.Sprintf("the pattern %q of tools: %v", p, err)
		}
	}
	return ""
}

// refuseTool returns the error for a call of a tool that is not offered, or nil. A call has one name afterwards, since
// an upstream may read another one of several than the gateway does.
func (u *Upstream) refuseTool(r *clientRequest) *wire.Failure {
	if len(u.Tools) == 0 || r.method != wire.MethodCall {
		return nil
	}
	r.params = wire.Edit(r.params, func(params map[string]json.RawMessage) {
		for key := range params {
			if key != "name" && strings.EqualFold(key, "name") {
				delete(params, key)
			}
		}
	})
	name := wire.Text(r.params, "name")
	if name == "" || !u.offers(name) {
		return &wire.Failure{Code: wire.CodeInvalidParams, Message: fmt.Sprintf("the tool %.128q is not offered", name)}
	}
	return nil
}

// offered returns the result of tools/list without the tools that are not offered.
func (u *Upstream) offered(result json.RawMessage) json.RawMessage {
	var tools []json.RawMessage
	if len(u.Tools) == 0 || json.Unmarshal(wire.Members(result)["tools"], &tools) != nil {
		return result
	}
	return wire.Edit(result, func(m map[string]json.RawMessage) { m["tools"] = wire.Compact(u.onlyOffered(tools)) })
}

// onlyOffered returns the tools that are offered.
func (u *Upstream) onlyOffered(tools []json.RawMessage) []json.RawMessage {
	return slices.DeleteFunc(tools, func(tool json.RawMessage) bool { return !u.offers(wire.Text(tool, "name")) })
}

// label names the upstream of a request in metrics and logs: with the member that the request is for, if it is one.
func (u *Upstream) label(r *clientRequest) string {
	key, separator := "name", "_"
	switch r.method {
	case wire.MethodCall, "prompts/get":
	case "resources/read", wire.MethodSubscribe, wire.MethodUnsubscribe:
		key, separator = "uri", "+"
	default:
		return u.Name
	}
	name, _, _ := strings.Cut(wire.Text(r.params, key), separator)
	if slices.ContainsFunc(u.Merge, func(m Upstream) bool { return m.Name == name }) {
		return u.Name + "/" + name
	}
	return u.Name
}
