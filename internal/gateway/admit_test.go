package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/gateway"
	"reprise/internal/quota"
	"reprise/mcp/mcphttp"
)

// limitCalls admits calls of tools up to a limit, and returns the number of those that are admitted at the moment.
func (f *fixture) limitCalls(limit int64) *atomic.Int64 {
	var used atomic.Int64
	f.admit = func(x *mcphttp.Exchange) (func(), error) {
		if x.Messages[0].Method != "tools/call" {
			return func() {}, nil
		}
		if used.Load() >= limit {
			return nil, &quota.Error{Quota: quota.Calls, Of: quota.OfPrincipal, Limit: limit}
		}
		used.Add(1)
		return func() { used.Add(-1) }, nil
	}
	return &used
}

// TestRefusedRequestsDoNotReachTheUpstream: a request that is not admitted is answered with the quota, the upstream
// does not see it, and the session goes on.
func TestRefusedRequestsDoNotReachTheUpstream(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		f := newFixture(t, gateway.Upstream{})
		var refused atomic.Int64
		f.hooks = &gateway.Hooks{Called: func(_ string, result gateway.CallResult, _ time.Duration) {
			if result == gateway.Refused {
				refused.Add(1)
			}
		}}
		used := f.limitCalls(1)
		s := f.start().connect(version, nil)
		first := make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "sleep", Arguments: args{"ms": 600_000}})
			first <- err
		}()
		f.eventually("the tool runs", func() bool { return f.slept() == 1 })
		for range 3 {
			_, err := call(s, "sleep", args{"ms": 1})
			failure, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok {
				t.Fatalf("a call beyond the quota: %v", err)
			}
			var data map[string]any
			check(t, json.Unmarshal(failure.Data, &data))
			if got := fmt.Sprint(data); got !=
				"map[code:quota_exceeded quota:calls quota_of:principal retry_after:10s retryable:true]" {
				t.Errorf("the data of the refusal are %s", got)
			}
		}
		if _, err := s.ListTools(context.Background(), nil); err != nil {
			t.Errorf("other requests are refused too: %v", err)
		}
		if refused.Load() != 3 || f.slept() != 1 || used.Load() != 1 {
			t.Errorf("%d calls were refused, %d have reached the upstream, %d are counted",
				refused.Load(), f.slept(), used.Load())
		}
		cancel()
		<-first
		f.eventually("the cancelled call is no longer counted", func() bool { return used.Load() == 0 })
		f.want(s, "sleep", args{"ms": 1}, "slept")
		f.eventually("the answered call is no longer counted", func() bool { return used.Load() == 0 })
	})
}

// TestTasksStayAdmitted: a call that has become a task is counted until the upstream has answered.
func TestTasksStayAdmitted(t *testing.T) {
	f := newFixture(t, gateway.Upstream{})
	f.taskAfter = 50 * time.Millisecond
	used := f.limitCalls(1)
	f.start().modern("tools/list", "", "") // so that the gateway knows the tools
	a := f.tool("sleep", `{"ms":600000}`)
	if a.Result.ResultType != "task" {
		t.Fatalf("a long call is answered with %+v %s", a, a.Error)
	}
	if got := f.tool("sleep", `{"ms":1}`); !strings.Contains(string(got.Error), `"quota":"calls"`) {
		t.Errorf("beside a task, a call is answered with %+v %s", got, got.Error)
	}
	if used.Load() != 1 {
		t.Errorf("%d calls are counted", used.Load())
	}
	if got := f.task(a.Result.TaskID); got.Result.Status != "working" {
		t.Errorf("the task is %q %s", got.Result.Status, got.Error)
	}
	f.modern("tasks/cancel", a.Result.TaskID, fmt.Sprintf(`"taskId":%q`, a.Result.TaskID))
	f.eventually("the cancelled task is no longer counted", func() bool { return used.Load() == 0 })
	if got := f.tool("sleep", `{"ms":1}`); got.Error != nil {
		t.Errorf("after the task, a call is answered with %s", got.Error)
	}
}
