package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/execution"
	"reprise/store/memstore"
)

// TestListIsBoundedInBytes: a page of executions with large labels ends early, and the pages have all of them.
func TestListIsBoundedInBytes(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, execution.Options{})
	labels := make(map[string]string, 60)
	for i := range 60 {
		labels[fmt.Sprint("=label", i)] = strings.Repeat("v", 256)
	}
	const executions = 800
	for i := range executions {
		key := reprise.StreamKey{Tenant: tenant, Name: fmt.Sprint("execution:x", i)}
		s, _, err := log.Create(t.Context(), key, reprise.StreamConfig{Labels: labels})
		if err == nil {
			_, err = s.End(t.Context(), "exited", reprise.Event{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	listed, pages := 0, 0
	for q := (execution.ListQuery{Limit: 1000}); ; {
		page, err := h.List(within(t), tenant, q)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for i := range page.Executions {
			x := &page.Executions[i]
			if listed++; x.ID != fmt.Sprint("x", executions-listed) || len(x.Labels) != len(labels) {
				t.Fatalf("execution %d of the list is %s with %d labels", listed, x.ID, len(x.Labels))
			}
			text, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			size += len(text)
		}
		if pages++; size > 9<<20 {
			t.Errorf("a page of %d bytes", size)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if listed != executions || pages < 2 {
		t.Errorf("%d executions were listed, in %d pages", listed, pages)
	}
}

// countingStore counts the streams that it lists.
type countingStore struct {
	*memstore.Store
	listed int
}

func (c *countingStore) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	page, err := c.Store.List(ctx, q)
	c.listed += len(page.Streams)
	return page, err
}

// TestListReadsNoMoreThanItReturns: a page without conditions does not list a thousand streams for ten.
func TestListReadsNoMoreThanItReturns(t *testing.T) {
	store := &countingStore{Store: memstore.New(nil)}
	log := newLog(t, store, nil)
	h := openHost(t, log, execution.Options{})
	for i := range 100 {
		key := reprise.StreamKey{Tenant: tenant, Name: fmt.Sprint("execution:x", i)}
		config := reprise.StreamConfig{Labels: map[string]string{"=odd": fmt.Sprint(i % 2), "=n": fmt.Sprint(i)}}
		s, _, err := log.Create(t.Context(), key, config)
		if err == nil && i%3 == 0 {
			_, err = s.End(t.Context(), "exited", reprise.Event{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	store.listed = 0
	page, err := h.List(within(t), tenant, execution.ListQuery{Limit: 10})
	if err != nil || len(page.Executions) != 10 || page.Next == "" || store.listed > 20 {
		t.Errorf("%d executions of %d listed streams, %v", len(page.Executions), store.listed, err)
	}
	for _, tt := range []struct {
		q    execution.ListQuery
		want int
	}{
		{execution.ListQuery{Labels: map[string]string{"odd": "1"}}, 50},
		{execution.ListQuery{Labels: map[string]string{"odd": "1"}, Status: execution.StatusEnded}, 17},
		{execution.ListQuery{Labels: map[string]string{"odd": "1", "n": "7"}}, 1},
		{execution.ListQuery{Labels: map[string]string{"even": "1"}}, 0},
		{execution.ListQuery{Status: execution.StatusEnded}, 34},
		{execution.ListQuery{Status: execution.StatusQueued}, 66},
	} {
		page, err := h.List(within(t), tenant, tt.q)
		if err != nil || len(page.Executions) != tt.want {
			t.Errorf("%+v: %d executions, want %d, %v", tt.q, len(page.Executions), tt.want, err)
		}
	}
}

func TestListAndSessions(t *testing.T) {
	h := newHost(t, execution.Options{})
	var ids []string
	for i := range 30 {
		req := execution.Request{
			ID:      fmt.Sprintf("x%02d", i),
			Command: "true",
			Labels:  map[string]string{"mod": fmt.Sprint(i % 3)},
		}
		if i%10 == 0 {
			req.Session = fmt.Sprintf("s%d", i/10)
		}
		ids = append(ids, req.ID)
		start(t, h, req)
	}
	for _, id := range ids {
		finish(t, h, id)
	}
	holding := start(t, h, execution.Request{ID: "holding", Command: "exec sleep 100", Session: "s1"})
	slices.Reverse(ids)
	for _, c := range []struct {
		query execution.ListQuery
		want  []string
	}{
		{execution.ListQuery{}, append([]string{"holding"}, ids...)},
		{execution.ListQuery{Limit: 1}, append([]string{"holding"}, ids...)},
		{execution.ListQuery{Limit: 7}, append([]string{"holding"}, ids...)},
		{execution.ListQuery{Session: "s1", Limit: 1}, []string{"holding", "x10"}},
		{execution.ListQuery{Status: execution.StatusRunning}, []string{"holding"}},
		{execution.ListQuery{Status: execution.StatusEnded, Limit: 4}, ids},
		{execution.ListQuery{Labels: map[string]string{"mod": "0"}, Session: "s2"}, nil},
		{
			execution.ListQuery{Labels: map[string]string{"mod": "2"}, Limit: 3},
			[]string{"x29", "x26", "x23", "x20", "x17", "x14", "x11", "x08", "x05", "x02"},
		},
		{execution.ListQuery{Labels: map[string]string{"none": ""}}, nil},
	} {
		var got []string
		for q := c.query; ; {
			page, err := h.List(within(t), tenant, q)
			if err != nil {
				t.Fatal(err)
			}
			if q.Limit > 0 && len(page.Executions) > q.Limit {
				t.Errorf("%+v: a page of %d", c.query, len(page.Executions))
			}
			for _, x := range page.Executions {
				got = append(got, x.ID)
				if x.Window.Tail == "" {
					t.Errorf("%s has no window", x.ID)
				}
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.query, got, c.want)
		}
	}
	for _, q := range []execution.ListQuery{{Limit: -1}, {Limit: 1001}, {After: "nonsense"}, {Status: "gone"}} {
		if _, err := h.List(within(t), tenant, q); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if page, err := h.List(within(t), "other", execution.ListQuery{}); err != nil || len(page.Executions) > 0 {
		t.Errorf("another tenant sees %v, %v", page.Executions, err)
	}
	checkSessions(t, h, holding.ID)
}

func checkSessions(t *testing.T, h *execution.Host, holding string) {
	t.Helper()
	var got []string
	for after := ""; ; {
		page, err := h.Sessions(within(t), tenant, execution.SessionQuery{Limit: 1, After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Sessions {
			got = append(got, fmt.Sprintf("%s:%d:%d", s.ID, s.Count, s.Running))
		}
		if after = page.Next; after == "" {
			break
		}
	}
	slices.Sort(got) // those of one millisecond may come in any order
	if want := []string{"s0:1:0", "s1:2:1", "s2:1:0"}; !slices.Equal(got, want) {
		t.Errorf("sessions %v, want %v", got, want)
	}
	s, err := h.Session(within(t), tenant, "s1")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Executions) != 2 || s.Executions[0].ID != holding || s.LastSeq != 2 || s.Created.After(s.Updated.Time) {
		t.Errorf("session %+v", s)
	}
	if _, err := h.Sessions(within(t), tenant, execution.SessionQuery{
		Limit: 1,
		After: "x",
	}); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("a cursor that is none: %v", err)
	}
	if err := h.RemoveSession(within(t), tenant, "s1"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Session(within(t), tenant, "s1"); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("after it was removed: %v", err)
	}
	if _, err := h.Show(within(t), tenant, holding); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("its execution: %v", err)
	}
	if err := h.RemoveSession(within(t), tenant, "s1"); err != nil {
		t.Errorf("removing it again: %v", err)
	}
}
