package gateway

import (
	"encoding/json"
	"sync"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// An upstream of version 2026-07-28 may answer a call with questions. A client with a session gets the questions on the
// stream of the call, and the call is sent again with the answers.

// inputRequired is a result that asks.
type inputRequired struct {
	ResultType string
	Requests   map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"inputRequests"`
	State json.RawMessage `json:"requestState"`
}

// round is a call that is sent again when all questions are answered.
type round struct {
	request *clientRequest
	base    json.RawMessage // the params of the call
	state   json.RawMessage

	mu      sync.Mutex
	open    int
	answers map[string]json.RawMessage
}

// askRound asks the client the questions in a result. It returns false if the result has no questions or is passed to
// the client unchanged.
func (d *delivery) askRound(a arrival) bool {
	r := a.request
	var wanted inputRequired
	if r.call == nil || !r.call.conn.translates() || a.m.Result == nil {
		return false
	}
	if json.Unmarshal(a.m.Result, &wanted) != nil || wanted.ResultType != "input_required" {
		return false
	}
	asked := &round{
		request: r, base: r.params, state: wanted.State,
		open: len(wanted.Requests), answers: map[string]json.RawMessage{},
	}
	if asked.open == 0 {
		asked.sendAgain()
	}
	for key, question := range wanted.Requests {
		id := wire.ID(r.call.id)
		d.silence.asked()
		err := d.x.Ask(id, wire.Request(id, question.Method, question.Params), func(raw []byte) {
			d.silence.answered()
			asked.take(key, raw)
		})
		if err != nil {
			d.silence.answered()
			r.fail(Answered, wire.Internal(wire.ReasonNoClient, "the client cannot be asked: "+err.Error()))
		}
	}
	return true
}

// take takes the client's answer to a question.
func (asked *round) take(key string, raw []byte) {
	m, err := mcphttp.ParseMessage(raw)
	if err != nil || m.Result == nil {
		message := "the client has not answered what the upstream asks"
		asked.request.fail(Answered, wire.Internal(wire.ReasonNoAnswer, message))
		return
	}
	asked.mu.Lock()
	defer asked.mu.Unlock()
	asked.answers[key] = m.Result
	if asked.open--; asked.open == 0 {
		asked.sendAgain()
	}
}

// sendAgain has the delivery send the call with the answers.
func (asked *round) sendAgain() {
	params := wire.Edit(asked.base, func(p map[string]json.RawMessage) {
		p["inputResponses"] = wire.Compact(asked.answers)
		delete(p, "requestState")
		if asked.state != nil {
			p["requestState"] = asked.state
		}
	})
	asked.request.in.push(arrival{request: asked.request, retry: params})
}
