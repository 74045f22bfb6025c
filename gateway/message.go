package gateway

import (
	"bytes"
	"encoding/json"
	"strconv"

	"reprise/mcphttp"
)

// The protocol versions. They compare as strings.
const (
	version20250326 = "2025-03-26"
	version20251125 = "2025-11-25" // the newest with sessions
	version20260728 = "2026-07-28" // has no sessions
)

// The methods that the gateway has something to do with.
const (
	methodInitialize  = "initialize"
	methodPing        = "ping"
	methodDiscover    = "server/discover"
	methodListen      = "subscriptions/listen"
	methodSetLevel    = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodListTools   = "tools/list"
	noteInitialized   = "notifications/initialized"
	noteCancelled     = "notifications/cancelled"
	noteProgress      = "notifications/progress"
	noteLog           = "notifications/message"
	noteUpdated       = "notifications/resources/updated"
	noteAcknowledged  = "notifications/subscriptions/acknowledged"
)

// The codes of JSON-RPC 2.0, section 5.1, and of MCP.
const (
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeResourceNotFound   = -32002 // until 2025-11-25
	codeUnsupportedVersion = -32022
)

// failure is the error of a response. code says in its data what no number does.
type failure struct {
	rpc     int
	message string
	code    string
}

func (f *failure) Error() string { return f.message }

// json is the member "error" of a response.
func (f *failure) json() json.RawMessage {
	e := struct {
		Code    int               `json:"code"`
		Message string            `json:"message"`
		Data    map[string]string `json:"data,omitempty"`
	}{Code: f.rpc, Message: f.message}
	if f.code != "" {
		e.Data = map[string]string{"code": f.code}
	}
	return compact(e)
}

// compact is v as JSON, without escapes that only HTML needs and without a line break.
func compact(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // of our own types, which hold valid JSON
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// request is a request, or a notification if id is "".
func request(id mcphttp.ID, method string, params json.RawMessage) []byte {
	b := make([]byte, 0, 64+len(method)+len(params))
	b = append(b, `{"jsonrpc":"2.0"`...)
	if id != "" {
		b = append(append(b, `,"id":`...), id...)
	}
	b = append(append(b, `,"method":`...), compact(method)...)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// response is the response to id: failed, where that is not nil, or result.
func response(id mcphttp.ID, result, failed json.RawMessage) []byte {
	b := make([]byte, 0, 48+len(id)+len(result)+len(failed))
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	if failed != nil {
		b = append(append(b, `,"error":`...), failed...)
	} else {
		b = append(append(b, `,"result":`...), result...)
	}
	return append(b, '}')
}

// upstreamID is an id as we write it to an upstream.
func upstreamID(n int64) mcphttp.ID { return mcphttp.ID(strconv.FormatInt(n, 10)) }

// parseUpstreamID is the inverse of upstreamID, 0 for what is none. Some servers send numbers back as strings.
func parseUpstreamID(raw []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.Trim(raw, `"`)), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// members are those of an object, an empty map for anything else.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		m = map[string]json.RawMessage{}
	}
	return m
}

// edit changes the members of an object, or makes one.
func edit(raw json.RawMessage, change func(map[string]json.RawMessage)) json.RawMessage {
	m := members(raw)
	change(m)
	return compact(m)
}

// editMeta changes the members of _meta in an object. An empty _meta is left out.
func editMeta(raw json.RawMessage, change func(map[string]json.RawMessage)) json.RawMessage {
	return edit(raw, func(m map[string]json.RawMessage) {
		meta := members(m["_meta"])
		change(meta)
		if len(meta) == 0 {
			delete(m, "_meta")
			return
		}
		m["_meta"] = compact(meta)
	})
}

// withToken puts the token of an upstream into a request that has a progress token, and returns the client's.
func withToken(params json.RawMessage, upstream mcphttp.ID) (changed, token json.RawMessage) {
	if !bytes.Contains(params, []byte(`"progressToken"`)) {
		return params, nil
	}
	changed = editMeta(params, func(meta map[string]json.RawMessage) {
		if token = meta["progressToken"]; token != nil {
			meta["progressToken"] = json.RawMessage(upstream)
		}
	})
	if token == nil {
		return params, nil
	}
	return changed, token
}

// stringMember is a member of an object that is a string, else "".
func stringMember(raw json.RawMessage, name string) string {
	var s string
	_ = json.Unmarshal(members(raw)[name], &s) // of another type it is ""
	return s
}
