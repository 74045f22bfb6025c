package gateway

import (
	"encoding/json"
	"testing"

	"reprise/internal/gateway/wire"
)

// TestCallsArePassedOnWithOneName: whichever of several names an upstream would read, it gets the one that was checked.
func TestCallsArePassedOnWithOneName(t *testing.T) {
	u := &Upstream{Name: "u", Tools: []string{"!pid"}}
	for _, names := range []string{
		`"name":"pid","name":"echo"`, `"name":"echo","Name":"pid"`, `"NAME":"pid","name":"echo"`,
		`"name":"echo","\u006eAme":"pid"`,
	} {
		r := &clientRequest{method: wire.MethodCall, params: json.RawMessage("{" + names + `,"arguments":{"Name":1}}`)}
		why := u.refuseTool(r)
		if got := string(r.params); why != nil || got != `{"arguments":{"Name":1},"name":"echo"}` {
			t.Errorf("%s is passed on as %s, %v", names, got, why)
		}
	}
}
