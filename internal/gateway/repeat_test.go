package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"reprise/internal/gateway"
)

// parkCall calls a tool that asks, and returns the params that answer what it asks.
func (f *fixture) parkCall(tool, text, name string) (again string) {
	f.Helper()
	a := f.tool(tool, fmt.Sprintf(`{"text":%q}`, text))
	if a.Result.ResultType != "input_required" || len(a.Result.InputRequests) != 1 {
		f.Fatalf("the call is answered with %+v %s", a, a.Error)
	}
	key := slices.Collect(maps.Keys(a.Result.InputRequests))[0]
	return fmt.Sprintf(`"name":%q,"arguments":{"text":%q},"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{"name":%q}}}`,
		tool, text, a.Result.RequestState, key, name)
}

// TestParkedQuestionSurvivesARestart: a client that was asked answers the next gateway, and gets its result without
// being asked again.
func TestParkedQuestionSurvivesARestart(t *testing.T) {
	oldEra := []string{program, "-lacks", "server/discover"}
	for name, up := range map[string]gateway.Upstream{
		"askagain":     {Command: oldEra},
		"one_askagain": {Merge: []gateway.Upstream{{Name: "one", Command: oldEra}, {Name: "two", Command: oldEra}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, up).start()
			again := f.parkCall(name, "who", "Ada")
			f.stop()
			f.start()
			a := f.modern("tools/call", name, again)
			if a.Result.ResultType != "complete" || !strings.Contains(string(a.Result.Content), "accept Ada") {
				t.Errorf("the answer is answered with %+v %s", a, a.Error)
			}
		})
	}
}

// TestParkedQuestionThatIsAnotherOneIsAsked: an upstream that asks something else the second time is not given the
// answer to what it has asked before.
func TestParkedQuestionThatIsAnotherOneIsAsked(t *testing.T) {
	f := newFixture(t, gateway.Upstream{Command: []string{program, "-lacks", "server/discover"}}).start()
	again := f.parkCall("askagain", "who", "Ada")
	f.stop()
	f.start()
	a := f.modern("tools/call", "askagain", strings.Replace(again, `"who"`, `"where"`, 1))
	question, err := json.Marshal(a.Result.InputRequests)
	check(t, err)
	if a.Result.ResultType != "input_required" || !strings.Contains(string(question), "where") {
		t.Errorf("the answer is answered with %+v %s", a, a.Error)
	}
}

// TestParkedCallThatMayDoHarmIsNotRepeated: a tool that does not say that it may be called again is not.
func TestParkedCallThatMayDoHarmIsNotRepeated(t *testing.T) {
	f := newFixture(t, gateway.Upstream{Command: []string{program, "-lacks", "server/discover"}}).start()
	again := f.parkCall("ask", "who", "Ada")
	f.stop()
	f.start()
	a := f.modern("tools/call", "ask", again)
	if !strings.Contains(string(a.Error), "upstream_lost") || !strings.Contains(string(a.Error), "idempotentHint") {
		t.Errorf("the answer is answered with %+v %s", a, a.Error)
	}
}
