package schedule

import (
	"context"
	"errors"
	"testing"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/store/memstore"
)

// TestDisablingOutlivesItsWorker: the worker of a schedule ends as soon as it is read that the schedule is disabled,
// and still tells of it.
func TestDisablingOutlivesItsWorker(t *testing.T) {
	store := memstore.New(nil)
	log, err := reprise.Open(t.Context(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	s, err := Open(t.Context(), log, &Options{
		Start: func(context.Context, *identity.Principal, execution.Request) (execution.Execution, bool, error) {
			return execution.Execution{}, false, nil
		},
		Show: func(context.Context, reprise.Tenant, string) (execution.Execution, error) {
			return execution.Execution{}, nil
		},
		Principal: func(context.Context, reprise.Tenant, string) (identity.Principal, error) {
			return identity.Principal{}, nil
		},
		Disabled: func(*Schedule, string) { told++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	one, err := s.Add(t.Context(), Request{
		Tenant: "t", Principal: "ci", Cron: "@daily", Execution: execution.Request{Argv: []string{"true"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.giveUp(ended, &one, "a reason"); err != nil || told != 1 {
		t.Errorf("told %d times, %v", told, err)
	}
	s.Close()
	if err := errors.Join(log.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
}
