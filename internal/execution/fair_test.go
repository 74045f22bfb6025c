package execution_test

import (
	"errors"
	"fmt"
	"testing"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/quota"
)

// someone is a principal of the tenant of the tests.
func someone(name string) *quota.Holder {
	return &quota.Holder{Account: quota.Account{Tenant: tenant, Principal: name}}
}

var holds = execution.Request{Command: "read x", StdinOpen: true}

// startFor starts a command that runs until its stdin ends.
func startFor(t *testing.T, h *execution.Host, who *quota.Holder) (execution.Execution, error) {
	t.Helper()
	x, _, err := h.StartFor(within(t), who, holds)
	return x, err
}

func mustStartFor(t *testing.T, h *execution.Host, who *quota.Holder) string {
	t.Helper()
	x, err := startFor(t, h, who)
	if err != nil {
		t.Fatal(err)
	}
	return x.ID
}

// refusedFor returns which quota refuses another start.
func refusedFor(t *testing.T, h *execution.Host, who *quota.Holder) string {
	t.Helper()
	_, err := startFor(t, h, who)
	refused, ok := errors.AsType[*quota.Error](err)
	if !ok || !errors.Is(err, reprise.ErrQuota) {
		t.Fatalf("a start of %s: %v", who.Principal, err)
	}
	return fmt.Sprint(refused.Quota, " of the ", refused.Of)
}

// over ends a command that holds.
func over(t *testing.T, h *execution.Host, id string) {
	t.Helper()
	if err := h.Cancel(within(t), tenant, id); err != nil {
		t.Fatal(err)
	}
	finish(t, h, id)
}

// TestFloodOfOnePrincipalLeavesPlaces: one principal asks for far more than there is, is refused, and others get places
// to run at once and places to wait.
func TestFloodOfOnePrincipalLeavesPlaces(t *testing.T) {
	h := newHost(t, execution.Options{
		MaxRunning: 8, MaxQueued: 40, Quotas: quota.New(&quota.Options{Several: func() bool { return true }}),
	})
	flood, calm := someone("flood"), someone("calm")
	taken, refused := 0, 0
	for range 2000 {
		_, err := startFor(t, h, flood)
		switch {
		case err == nil:
			taken++
		case errors.Is(err, reprise.ErrQuota):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if got := h.CountsOf(flood.Account); got != (execution.Counts{Running: 6, Queued: 30}) || taken != 36 {
		t.Errorf("the flood has %+v, and %d were taken", got, taken)
	}
	id := mustStartFor(t, h, calm)
	if status(t, h, id) != execution.StatusRunning {
		t.Error("there is no place for another principal")
	}
	var waiting []string
	for range 5 {
		waiting = append(waiting, mustStartFor(t, h, calm))
	}
	if got := refusedFor(t, h, flood); got != "queued of the server" {
		t.Errorf("refused for %s", got)
	}
	over(t, h, id)
	until(t, "one that waits of the other has the place", func() bool {
		return status(t, h, waiting[0]) == execution.StatusRunning
	})
	if got := h.CountsOf(quota.Account{Tenant: tenant}); got.Running+got.Queued != 36+5 {
		t.Errorf("the tenant has %+v", got)
	}
}

// TestSinglePrincipalMayUseAllPlaces: without other principals no places are reserved.
func TestSinglePrincipalMayUseAllPlaces(t *testing.T) {
	h := newHost(t, execution.Options{MaxRunning: 4, MaxQueued: 4})
	operator := someone("token")
	operator.Operator = true
	for range 8 {
		mustStartFor(t, h, operator)
	}
	if got := h.Counts(); got != (execution.Counts{Running: 4, Queued: 4}) {
		t.Errorf("%+v", got)
	}
	if got := refusedFor(t, h, operator); got != "queued of the server" {
		t.Errorf("refused for %s", got)
	}
}

// TestPlacesRotateAmongTenantsAndPrincipals: a single place goes round among tenants, and within a tenant among
// principals, however many commands each has queued.
func TestPlacesRotateAmongTenantsAndPrincipals(t *testing.T) {
	h := newHost(t, execution.Options{MaxRunning: 1})
	other := someone("c")
	other.Tenant = "other"
	first := mustStartFor(t, h, someone("a"))
	owners := map[string]string{}
	for range 3 {
		owners[mustStartFor(t, h, someone("a"))] = "a"
	}
	owners[mustStartFor(t, h, someone("b"))] = "b"
	for range 2 {
		owners[mustStartFor(t, h, other)] = "c"
	}
	running := func() (id string) {
		for id, who := range owners {
			of := reprise.Tenant(tenant)
			if who == "c" {
				of = other.Tenant
			}
			if x, err := h.Show(within(t), of, id); err == nil && x.Status == execution.StatusRunning {
				return id
			}
		}
		return ""
	}
	over(t, h, first)
	order := ""
	for range 6 {
		id := ""
		until(t, "the next has its turn", func() bool { id = running(); return id != "" })
		order += owners[id]
		of := reprise.Tenant(tenant)
		if owners[id] == "c" {
			of = other.Tenant
		}
		if err := h.Cancel(within(t), of, id); err != nil {
			t.Fatal(err)
		}
		delete(owners, id)
	}
	// "other" has had no turn, then the tenants alternate, and in ours b comes before a, who has had one.
	if order != "cbcaaa" {
		t.Errorf("the turns went %s", order)
	}
}

// TestQuotasOfExecutions: each quota refuses or makes wait, and frees again.
func TestQuotasOfExecutions(t *testing.T) {
	for _, of := range []quota.Of{quota.OfPrincipal, quota.OfTenant} {
		t.Run(string(of), func(t *testing.T) {
			book := func(l quota.Limits) *quota.Book {
				if of == quota.OfTenant {
					return quota.New(&quota.Options{Tenant: l})
				}
				return quota.New(&quota.Options{Principal: l})
			}
			h := newHost(t, execution.Options{Quotas: book(quota.Limits{quota.Running: 2, quota.Queued: 1})})
			who := someone("a")
			one, two, three := mustStartFor(t, h, who), mustStartFor(t, h, who), mustStartFor(t, h, who)
			if got := status(t, h, three); got != execution.StatusQueued {
				t.Errorf("the third is %s", got)
			}
			for range 3 {
				if got := refusedFor(t, h, who); got != "queued of the "+string(of) {
					t.Errorf("refused for %s", got)
				}
			}
			stranger := someone("b")
			stranger.Tenant = "other"
			mustStartFor(t, h, stranger)
			over(t, h, three) // one that waits
			four := mustStartFor(t, h, who)
			over(t, h, one)
			until(t, "the fourth runs", func() bool { return status(t, h, four) == execution.StatusRunning })
			over(t, h, two)
			over(t, h, four)
			until(t, "nothing is counted", func() bool { return h.CountsOf(who.Account) == execution.Counts{} })
		})
	}
}

// TestStartsAMinute: starts come back with time, and a start that finds an execution or is refused is none.
func TestStartsAMinute(t *testing.T) {
	h := newHost(t, execution.Options{
		Quotas: quota.New(&quota.Options{Principal: quota.Limits{quota.Starts: 2, quota.Queued: 0}}), MaxRunning: 2,
	})
	who := someone("a")
	mustStartFor(t, h, &quota.Holder{Account: someone("b").Account})
	named := execution.Request{ID: "named", Command: "read x", StdinOpen: true}
	for range 3 {
		if _, _, err := h.StartFor(within(t), who, named); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // there is no place, and nobody may wait
		if got := refusedFor(t, h, who); got != "queued of the principal" {
			t.Fatalf("refused for %s", got)
		}
	}
	over(t, h, "named")
	until(t, "the place is free", func() bool { return h.CountsOf(who.Account) == execution.Counts{} })
	over(t, h, mustStartFor(t, h, who))
	once := someone("c")
	once.Limits = quota.Limits{quota.Starts: 1}
	again := execution.Request{ID: "again", Command: "true"}
	for range 3 { // the same again is no start, also while there may be none
		if _, _, err := h.StartFor(within(t), once, again); err != nil {
			t.Fatal(err)
		}
	}
	if got := refusedFor(t, h, once); got != "starts of the principal" {
		t.Errorf("refused for %s", got)
	}
}

// TestEndedCommandFreesItsPlace: a client that has seen the end of a command can start the next one at once, although
// the queue takes nothing.
func TestEndedCommandFreesItsPlace(t *testing.T) {
	h := newHost(t, execution.Options{
		Quotas: quota.New(&quota.Options{Principal: quota.Limits{quota.Running: 1, quota.Queued: 0}}),
	})
	who := someone("a")
	for range 40 {
		x, _, err := h.StartFor(within(t), who, execution.Request{Command: "true"})
		if err != nil {
			t.Fatal(err)
		}
		finish(t, h, x.ID)
	}
}
