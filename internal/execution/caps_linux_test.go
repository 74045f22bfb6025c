package execution_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/isolation"
	"reprise/internal/quota"
)

// TestCapsOfTenant: the bounds of a tenant replace the server's one by one, upward too, and hold for no other tenant.
func TestCapsOfTenant(t *testing.T) {
	given(t, isolation.Limits)
	h := newHost(t, execution.Options{
		Caps: execution.Caps{Limits: execution.Limits{OutputBytes: 10, Processes: 20}, Grace: time.Second},
		TenantCaps: map[reprise.Tenant]execution.Caps{
			"large": {Limits: execution.Limits{OutputBytes: 1000}, Grace: time.Minute},
			"small": {Limits: execution.Limits{Processes: 2}},
		},
	})
	for of, c := range map[reprise.Tenant]struct {
		field string
		req   execution.Request
	}{
		tenant:  {"limits.output_bytes", execution.Request{Limits: execution.Limits{OutputBytes: 11}}},
		"large": {"limits.processes", execution.Request{Limits: execution.Limits{OutputBytes: 1000, Processes: 21}}},
		"small": {"limits.processes", execution.Request{Limits: execution.Limits{OutputBytes: 10, Processes: 3}}},
	} {
		c.req.Command = "true"
		_, _, err := h.Start(within(t), of, c.req)
		if wrong, ok := errors.AsType[*execution.FieldError](err); !ok || wrong.Field != c.field {
			t.Errorf("%s: %v", of, err)
		}
	}
	for of, most := range map[reprise.Tenant]int{tenant: 10, "large": 1000} {
		x, _, err := h.Start(within(t), of, execution.Request{Command: "head -c 5000 /dev/zero; sleep 100"})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the execution ends", func() bool {
			x, err = h.Show(within(t), of, x.ID)
			return err != nil || x.Status == execution.StatusEnded
		})
		if err != nil || x.Limit != "output_bytes" || x.Bytes.Stdout != int64(most) {
			t.Errorf("%s: %d bytes, limit %q, %v", of, x.Bytes.Stdout, x.Limit, err)
		}
		b, err := h.Boundary(of)
		if err != nil || b.Limits.OutputBytes != int64(most) || b.Limits.Processes != 20 {
			t.Errorf("%s: the boundary has %+v, %v", of, b.Limits, err)
		}
	}
}

// TestCapsOfServer: the limits of the server hold for commands that ask for none, and a request may ask for less, but
// not for more.
func TestCapsOfServer(t *testing.T) {
	given(t, isolation.Limits)
	h := newHost(t, execution.Options{Grace: 30 * time.Second, Caps: execution.Caps{
		Limits: execution.Limits{
			MemoryBytes: 256 << 20, Processes: 20, CPUTime: client.Duration(time.Minute), OutputBytes: 1000,
		},
		Grace: 100 * time.Millisecond,
	}})
	for field, req := range map[string]execution.Request{
		"limits.memory_bytes": {Limits: execution.Limits{MemoryBytes: 256<<20 + 1}},
		"limits.processes":    {Limits: execution.Limits{Processes: 21}},
		"limits.cpu_time":     {Limits: execution.Limits{CPUTime: client.Duration(time.Minute + 1)}},
		"limits.output_bytes": {Limits: execution.Limits{OutputBytes: 1001}},
		"grace":               {Grace: client.Duration(101 * time.Millisecond)},
		"isolation":           {Isolation: "none"},
	} {
		req.Command = "true"
		_, _, err := h.Start(within(t), tenant, req)
		if wrong, ok := errors.AsType[*execution.FieldError](err); !ok || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, _, err := interpreter.Open(within(t), h, &quota.Holder{Account: quota.Account{Tenant: tenant}},
		interpreter.Request{Language: "bash", Limits: execution.Limits{Processes: 21}})
	if wrong, ok := errors.AsType[*execution.FieldError](err); !ok || wrong.Field != "limits.processes" {
		t.Errorf("an interpreter: %v", err)
	}
	for name, c := range map[string]struct {
		req   execution.Request
		limit string
	}{
		"processes": {execution.Request{Command: "for i in $(seq 40); do sleep 100 & done; wait"}, "processes"},
		"output":    {execution.Request{Command: "seq 1000; sleep 100"}, "output_bytes"},
		"less than most": {execution.Request{
			Command: "for i in $(seq 8); do sleep 100 & done; wait", Limits: execution.Limits{Processes: 4},
		}, "processes"},
	} {
		x := finish(t, h, start(t, h, c.req).ID)
		if x.Outcome == "" || x.Outcome != execution.LimitExceeded || x.Limit != c.limit {
			t.Errorf("%s: %v of %q", name, x.Outcome, x.Limit)
		}
	}
	if _, err := (&isolation.Config{}).Resolve(isolation.Landlock, isolation.Access{}); err == nil {
		x := finish(t, h, start(t, h, execution.Request{Command: "df -k /tmp", Isolation: "landlock"}).ID)
		out := string(output(t, h, x.ID, execution.Stdout))
		if x.Isolation.Layers.Temporary == isolation.ByMounts && !strings.Contains(out, " 262144 ") {
			t.Errorf("the temporary directory is not bounded by the limit of memory: %s", out)
		}
	}
	x := start(t, h, execution.Request{Command: "trap '' TERM; echo ready; while :; do sleep 1; done"})
	await(t, h, x.ID, "ready")
	begun := time.Now()
	if err := h.Cancel(within(t), tenant, x.ID); err != nil {
		t.Fatal(err)
	}
	finish(t, h, x.ID)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("after TERM it went on for %v", took)
	}
}
