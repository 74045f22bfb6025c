package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"reprise"
)

const (
	ruleListOrder   = "List returns streams, the newest first, without their Producers."
	ruleListPages   = "Streams created before the first page was asked for and not removed meanwhile must each appear exactly once over all pages."
	ruleListExpired = "Expired streams must not appear."
	ruleListAfter   = "A text that no List returned must be refused with ErrInvalid."
	ruleListNext    = "Next is the value for ListQuery.After; it is \"\" on the last page."
	ruleListScope   = "Tenant is the owner of the listed streams; \"\" lists the streams of all tenants."
	ruleListTakes   = "Open leaves out the streams that have ended, and Labels those without all of these labels."
	ruleListNames   = "Namespace is the exact namespace of the names, or \"\" for names without one."
)

// everything lists all streams of all tenants.
var everything = reprise.ListQuery{AllNamespaces: true, Limit: 1000}

var listChecks = []check{
	{name: "newest first", rule: ruleListOrder, run: func(e *env) {
		var want []reprise.StreamInfo
		for i := range 30 {
			s := e.createKey(key(fmt.Sprint("s/", i*7%30)),
				reprise.StreamConfig{Labels: map[string]string{"i": fmt.Sprint(i)}})
			s.append(1 + i).trim(uint64(1 + i/2))
			if i%3 == 0 {
				s.finish(now().Add(time.Hour))
			}
			want = append(want, s.state())
		}
		slices.Reverse(want)
		e.listed(everything, want...)
	}},
	{name: "without producers", rule: ruleListOrder, run: func(e *env) {
		p := newProducers(e)
		p.send("a", "b")
		for _, info := range e.list(everything) {
			if info.Producers != nil {
				e.failf("listed with producers: %v", info.Producers)
			}
		}
		p.same()
	}},
	{name: "nothing", rule: ruleListNext, run: func(e *env) { e.listed(everything) }},
	{name: "pages", rule: ruleListNext, run: func(e *env) {
		const n = 23
		var want []reprise.StreamInfo
		for i := range n {
			want = append(want, e.create(fmt.Sprint("s/", i)).state())
		}
		slices.Reverse(want)
		for _, limit := range []int{1, 2, 5, n - 1, n, n + 1, 1000} {
			q := everything
			q.Limit = limit
			e.listed(q, want...)
		}
	}},
	{name: "tenants and namespaces", rule: ruleListScope, run: listScopes},
	{name: "namespaces", rule: ruleListNames, run: listNamespaces},
	{name: "expired", rule: ruleListExpired, run: func(e *env) {
		first, gone, last := e.create("first"), e.create("gone").append(1), e.create("last")
		gone.remove(reprise.RemoveSpec{Remember: now().Add(time.Hour)})
		e.listed(everything, last.state(), first.state())
		again := e.create("gone")
		e.listed(everything, again.state(), last.state(), first.state())
	}},
	{name: "with conditions", rule: ruleListTakes, run: listTakes},
	{name: "removed while paging", rule: ruleListPages, run: listRemovedWhilePaging},
	{name: "created while paging", rule: ruleListPages, run: listCreatedWhilePaging},
	{name: "after nothing", rule: ruleListAfter, run: func(e *env) {
		e.create("s")
		for _, after := range []string{
			"x", " ", "-1", "1 ", "+1", "00", "01", "0x1", "1.5", "1e3", "99999999999999999999999999", "\x00", "é",
			"' OR 1=1 --", "*",
			strings.Repeat("9", 19), strings.Repeat("A", 10_000),
		} {
			q := everything
			q.After = after
			_, err := e.store.List(e.ctx, q)
			e.wantError(err, reprise.ErrInvalid, "list after %.40q", after)
		}
	}},
}

// list returns the streams of all pages.
func (e *env) list(q reprise.ListQuery) []reprise.StreamInfo {
	var all []reprise.StreamInfo
	told := map[string]bool{}
	for {
		page, err := e.store.List(e.ctx, q)
		e.noError(err, "list %+v", q)
		if len(page.Streams) > q.Limit {
			e.failf("list %+v: %d streams on a page", q, len(page.Streams))
		}
		if page.Next != "" && len(page.Streams) == 0 && !q.Open && q.Labels == nil {
			e.failf("list %+v: an empty page that is not the last", q)
		}
		all = append(all, page.Streams...)
		if q.After = page.Next; q.After == "" {
			return all
		}
		if told[q.After] {
			e.failf("list %+v: the same page comes again", q)
		}
		told[q.After] = true
	}
}

// listed checks the content of the pages of q.
func (e *env) listed(q reprise.ListQuery, want ...reprise.StreamInfo) {
	got := e.list(q)
	names := func(list []reprise.StreamInfo) (out []string) {
		for _, info := range list {
			out = append(out, info.Key.String())
		}
		return out
	}
	if g, w := names(got), names(want); !slices.Equal(g, w) {
		e.failf("list %+v: got %v, want %v", q, g, w)
	}
	for i := range got {
		e.sameInfo(got[i], want[i])
	}
}

func listScopes(e *env) {
	var want []reprise.StreamInfo // oldest first
	for _, tenant := range []reprise.Tenant{"a", "A", "ab", "a.b", "a_b", "default"} {
		for _, name := range []string{"s", "execution:s", "executions:s", "execution:a/b"} {
			s := e.createKey(reprise.StreamKey{Tenant: tenant, Name: name}, reprise.StreamConfig{})
			want = append(want, s.state())
		}
	}
	slices.Reverse(want)
	only := func(f func(k reprise.StreamKey) bool) []reprise.StreamInfo {
		return slices.DeleteFunc(slices.Clone(want), func(i reprise.StreamInfo) bool { return !f(i.Key) })
	}
	for _, tenant := range []reprise.Tenant{"", "a", "A", "ab", "a.b", "a_b", "b", "default", "%"} {
		mine := func(k reprise.StreamKey) bool { return tenant == "" || k.Tenant == tenant }
		for _, limit := range []int{2, 1000} {
			e.listed(reprise.ListQuery{Tenant: tenant, AllNamespaces: true, Limit: limit}, only(mine)...)
			for _, namespace := range []string{"", "execution:", "executions:", "Execution:", "exec%"} {
				q := reprise.ListQuery{Tenant: tenant, Namespace: namespace, Limit: limit}
				e.listed(q, only(func(k reprise.StreamKey) bool { return mine(k) && k.Namespace() == namespace })...)
			}
		}
	}
}

func listNamespaces(e *env) {
	plain, run := e.create("execution"), e.create("execution:execution")
	odd, upper := e.create("execution.:x"), e.create("EXECUTION:x")
	of := func(namespace string) reprise.ListQuery {
		return reprise.ListQuery{Tenant: reprise.DefaultTenant, Namespace: namespace, Limit: 10}
	}
	e.listed(of(""), plain.state())
	e.listed(of("execution:"), run.state())
	e.listed(of("execution.:"), odd.state())
	e.listed(of("EXECUTION:"), upper.state())
	e.listed(of("execution"))
}

func listRemovedWhilePaging(e *env) {
	const n = 60
	var streams []*stream // newest first
	for i := range n {
		streams = append([]*stream{e.create(fmt.Sprint("s/", i))}, streams...)
	}
	q := everything
	q.Limit = 10
	page, err := e.store.List(e.ctx, q)
	e.noError(err, "list")
	got := page.Streams
	// The last stream of the page, the first of the next one, and some more.
	for _, i := range []int{9, 10, 11, 25, 59} {
		streams[i].remove(reprise.RemoveSpec{})
	}
	q.After = page.Next
	got = append(got, e.list(q)...)
	seen := map[string]int{}
	for _, info := range got {
		seen[info.Key.Name]++
	}
	for i, s := range streams {
		want := 1
		if slices.Contains([]int{10, 11, 25, 59}, i) {
			want = 0
		}
		if seen[s.key.Name] != want {
			e.failf("%s, the %dth newest, appears %d times over all pages, want %d", s.key, i+1, seen[s.key.Name], want)
		}
	}
}

func listCreatedWhilePaging(e *env) {
	const n, others = 100, 3
	var done atomic.Bool
	for i := range n {
		e.create(fmt.Sprint("old/", i))
	}
	e.concurrently(others+1, func(i int) {
		if i > 0 { // a goroutine whose streams come and go
			for round := 0; !done.Load(); round++ {
				s := e.create(fmt.Sprintf("new/%d/%d", i, round))
				if round%2 == 0 {
					s.remove(reprise.RemoveSpec{})
				}
			}
			return
		}
		defer done.Store(true)
		for limit := 1; limit < 30; limit += 7 {
			q := everything
			q.Limit = limit
			seen := map[string]int{}
			for _, info := range e.list(q) {
				seen[info.Key.Name]++
			}
			for i := range n {
				if name := fmt.Sprint("old/", i); seen[name] != 1 {
					e.failf("%s appears %d times over all pages of %d, want once", name, seen[name], limit)
				}
			}
		}
	})
}

// listTakes checks that nothing is left out that Open and Labels take, whatever changed last.
func listTakes(e *env) {
	labels := func(i int) map[string]string {
		return map[string]string{"third": fmt.Sprint(i % 3), "half": fmt.Sprint(i % 2)}
	}
	for i := range 30 {
		s := e.createKey(key(fmt.Sprint("s/", i)), reprise.StreamConfig{Labels: labels(i)}).append(1)
		switch {
		case i%4 == 0:
			s.finish(now().Add(time.Hour))
		case i%5 == 0:
			s.configure(reprise.StreamConfig{Labels: labels(i + 1)})
		}
	}
	all := e.list(everything)
	for _, q := range []reprise.ListQuery{
		{Open: true},
		{Labels: map[string]string{"third": "1"}},
		{Labels: map[string]string{"third": "1", "half": "0"}, Open: true},
		{Labels: map[string]string{"third": "7"}},
		{Labels: map[string]string{"fourth": "1"}},
	} {
		for _, limit := range []int{1, 7, 1000} {
			q.AllNamespaces, q.Limit = true, limit
			got := map[reprise.StreamKey]bool{}
			for _, info := range e.list(q) {
				got[info.Key] = q.Takes(&info)
			}
			for i := range all {
				if q.Takes(&all[i]) && !got[all[i].Key] {
					e.failf("list %+v: %s is left out", q, all[i].Key)
				}
			}
		}
	}
}
