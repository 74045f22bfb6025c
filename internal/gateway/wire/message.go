package wire

import (
	"bytes"
	"encoding/json"
	"strconv"

	"reprise/mcp/mcphttp"
)

// Request returns a request, or a notification if id is "".
func Request(id mcphttp.ID, method string, params json.RawMessage) []byte {
	b := make([]byte, 0, 64+len(method)+len(params))
	b = append(b, `{"jsonrpc":"2.0"`...)
	if id != "" {
		b = append(append(b, `,"id":`...), id...)
	}
	b = append(append(b, `,"method":`...), Compact(method)...)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// Response returns the response to id, with the error failed if that is not nil, else with result.
func Response(id mcphttp.ID, result, failed json.RawMessage) []byte {
	b := make([]byte, 0, 48+len(id)+len(result)+len(failed))
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	if failed != nil {
		b = append(append(b, `,"error":`...), failed...)
	} else {
		b = append(append(b, `,"result":`...), result...)
	}
	return append(b, '}')
}

// Notification returns the Message of a notification.
func Notification(method string, params json.RawMessage) mcphttp.Message {
	return mcphttp.Message{Raw: Request("", method, params), Method: method, Params: params}
}

// ID returns n as the id of a message.
func ID(n int64) mcphttp.ID { return mcphttp.ID(strconv.FormatInt(n, 10)) }

// ParseID is the inverse of ID. It returns 0 for anything else. Some servers send numbers back as strings.
func ParseID(raw []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.Trim(raw, `"`)), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// SameID reports whether id is the id in raw, however that is escaped.
func SameID(id mcphttp.ID, raw json.RawMessage) bool {
	if mcphttp.ID(raw) == id {
		return true
	}
	var a, b any
	return json.Unmarshal([]byte(id), &a) == nil && json.Unmarshal(raw, &b) == nil && a == b
}

// ProgressToken returns the progress token in params, nil if they have none.
func ProgressToken(params json.RawMessage) json.RawMessage {
	if !bytes.Contains(params, []byte(`"progressToken"`)) {
		return nil
	}
	return Meta(params)["progressToken"]
}

// WithProgressToken returns params with another progress token.
func WithProgressToken(params json.RawMessage, token mcphttp.ID) json.RawMessage {
	return EditMeta(params, func(meta map[string]json.RawMessage) { meta["progressToken"] = json.RawMessage(token) })
}

// WithSubscription returns params that name a subscription.
func WithSubscription(params json.RawMessage, id mcphttp.ID) json.RawMessage {
	return EditMeta(params, func(meta map[string]json.RawMessage) { meta[MetaSubscription] = json.RawMessage(id) })
}
