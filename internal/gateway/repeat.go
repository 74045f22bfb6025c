package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// A parked call ends with its gateway. The next gateway, or another replica, repeats the call if that is safe, and
// answers the repeated questions of the upstream with the answers that the client has sent. The requestState names the
// questions, so no other state is needed. A client that forges one can only call the upstream, as it can anyway.

// newParkedState returns a requestState: random text by which this process knows the parked call, a dot, and a digest
// of each question by which another one knows the questions.
func newParkedState(questions map[string]mcphttp.Message) string {
	digests := map[string]string{}
	for key, m := range questions {
		digests[key] = questionDigest(m)
	}
	return rand.Text() + "." + base64.RawURLEncoding.EncodeToString(wire.Compact(digests))
}

// parkedDigests returns the digests in a requestState by their keys, or nil if newParkedState has not made it.
func parkedDigests(state string) (digests map[string]string) {
	_, encoded, _ := strings.Cut(state, ".")
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(text, &digests) != nil {
		return nil
	}
	return digests
}

// questionDigest returns a digest of a question. It ignores the order of members and _meta.
func questionDigest(m mcphttp.Message) string {
	var params map[string]any
	_ = json.Unmarshal(m.Params, &params) // without params it is nil
	delete(params, "_meta")
	sum := sha256.Sum256(append([]byte(m.Method+" "), wire.Compact(params)...))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// givenAnswers are the answers that a client has sent to questions of a call that is not parked here, by the digests
// of the questions.
type givenAnswers map[string]json.RawMessage

// repeatParked has d make a call again that was parked by a process which has ended, or by another replica. The error
// says why that cannot be.
func (d *delivery) repeatParked(ctx context.Context, c *connection) *wire.Failure {
	r := d.requests[0]
	params := wire.Members(r.params)
	digests := parkedDigests(wire.Text(r.params, "requestState"))
	if digests == nil {
		message := "the requestState is not known, or not any more"
		return &wire.Failure{Code: wire.CodeInvalidParams, Reason: wire.ReasonLost, Message: message}
	}
	if r.method == wire.MethodCall && !d.g.slot(c.key).tools.repeatable(ctx, c, wire.Text(r.params, "name")) {
		message := "the call that has asked this has ended, with the gateway or after " + parkTimeout.String() +
			"; it is not made again, because its tool says neither readOnlyHint nor idempotentHint"
		return wire.Internal(wire.ReasonLost, message)
	}
	d.given = givenAnswers{}
	answers := wire.Members(params["inputResponses"])
	for key, digest := range digests {
		if answer := answers[key]; answer != nil {
			d.given[digest] = answer
		}
	}
	delete(params, "requestState")
	delete(params, "inputResponses")
	r.params = wire.Compact(params)
	return nil
}

// answerGiven answers a question of the upstream with the client's answer, and reports whether there is one.
func (d *delivery) answerGiven(a arrival) bool {
	digest := questionDigest(a.m)
	answer, ok := d.given[digest]
	if ok {
		delete(d.given, digest) // a repeated question is a new question
		a.from.reply(wire.Response(a.m.ID, answer, nil))
	}
	return ok
}
