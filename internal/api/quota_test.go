package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/apikey"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/quota"
)

// bounded starts a server with quotas, which count what is refused.
func bounded(
	t *testing.T, opts quota.Options, kept func(tenant reprise.Tenant, account string) reprise.Quota,
) *fixture {
	t.Helper()
	m := api.NewMetrics()
	opts.Refused = m.QuotaRefused
	book := quota.New(&opts)
	return start(t, setup{
		api: api.Options{Quotas: book, Metrics: m}, host: execution.Options{Quotas: book, MaxRunning: 8},
		log: reprise.Options{Quota: kept},
	})
}

// limitedKey makes an API key with all scopes but that of the operator, and with quotas of its own.
func (w *fixture) limitedKey(
	name string, tenant reprise.Tenant, limits quota.Limits,
) (principal, text string) {
	w.Helper()
	var grants []identity.Grant
	for _, scope := range []identity.Scope{
		identity.ScopeRead, identity.ScopePublish, identity.ScopeRun, identity.ScopeControl,
	} {
		grants = append(grants, identity.Grant{Scope: scope})
	}
	request := apikey.Request{Name: name, Tenant: tenant, Scopes: grants, Limits: limits}
	key, text, err := w.keys.Add(w.Context(), request)
	w.ok(err)
	return name + "." + key.ID, text
}

// refusedBy checks that the answer says which quota is used up, whose it is, and when to come back.
func (a *answer) refusedBy(code string, name quota.Name, of quota.Of) {
	a.w.Helper()
	a.refused(429, code)
	if a.text("quota") != string(name) || a.text("quota_of") != string(of) {
		a.w.Errorf("%s: refused by %q of the %q, want %s of the %s",
			a.what, a.text("quota"), a.text("quota_of"), name, of)
	}
	constant := map[string]string{"quota_exceeded": "10", "too_many_readers": "5"}[code]
	after := a.header.Get("Retry-After")
	if after == "" || constant != "" && after != constant || a.member("retryable") != true {
		a.w.Errorf("%s: Retry-After %q, retryable %v", a.what, after, a.member("retryable"))
	}
}

// used is what a principal uses of one of its quotas.
func (w *fixture) used(name quota.Name) int64 {
	w.Helper()
	lines, _ := w.do("GET", "/v1/quota", "").is(200).member("quotas").([]any)
	for _, line := range lines {
		line := line.(map[string]any)
		if line["quota"] == string(name) && line["of"] == "principal" {
			return int64(line["used"].(float64))
		}
	}
	w.Fatalf("no quota %s in %v", name, lines)
	return 0
}

const holdsOn = `{"command":"read x","stdin_open":true}`

// TestEachQuotaRefusesAndFrees: each quota that HTTP can use up, of a principal and of a tenant, is refused by its
// name, and is there again once what was in use is not, however that came about.
func TestEachQuotaRefusesAndFrees(t *testing.T) {
	for _, tt := range []struct {
		quota quota.Name
		limit int64
		code  string
		// use takes all of it; free gives it back; more asks for more, which is refused before and not after.
		use  func(w *fixture) (free func())
		more func(w *fixture) *answer
	}{
		{
			quota.Queued, 0, "quota_exceeded",
			func(w *fixture) func() {
				var ids []string
				for range 6 { // three quarters of all places: there are several principals
					ids = append(ids, w.do("POST", "/v1/executions", holdsOn).is(201).text("id"))
				}
				return func() {
					for _, id := range ids {
						w.do("POST", "/v1/executions/"+id+"/cancel", "").is(204)
						w.ended(id)
					}
				}
			},
			func(w *fixture) *answer { return w.do("POST", "/v1/executions", `{"command":"true"}`) },
		},
		{
			quota.Readers, 2, "too_many_readers",
			func(w *fixture) func() {
				w.do("PUT", "/v1/streams/r", `{}`)
				one := w.follow("/v1/streams/r/events", asSSE)
				res := w.open("GET", "/v1/streams/r/events", "", "Accept: application/x-ndjson")
				return func() {
					one.close() // a client that goes
					w.client.CloseIdleConnections()
					_ = res.Body.Close()
				}
			},
			func(w *fixture) *answer { return w.do("GET", "/v1/streams/r/events?wait=1ms", "") },
		},
		{
			quota.Streams, 2, "quota_exceeded",
			func(w *fixture) func() {
				w.do("PUT", "/v1/streams/one", `{}`).is(201)
				w.do("PUT", "/v1/streams/two", `{}`).is(201)
				w.do("PUT", "/v1/streams/two", `{}`).is(200)
				return func() { w.do("DELETE", "/v1/streams/one", "").is(204) }
			},
			func(w *fixture) *answer { return w.do("PUT", "/v1/streams/three", `{}`) },
		},
		{
			quota.Bytes, 40_000, "quota_exceeded",
			func(w *fixture) func() {
				w.do("PUT", "/v1/streams/one", `{}`).is(201)
				w.do("PUT", "/v1/streams/two", `{}`).is(201)
				w.do("POST", "/v1/streams/one/events", strings.Repeat("x", 30_000)).is(200)
				return func() { w.do("DELETE", "/v1/streams/one", "").is(204) }
			},
			func(w *fixture) *answer { return w.do("POST", "/v1/streams/two/events", strings.Repeat("y", 20_000)) },
		},
	} {
		for _, of := range []quota.Of{quota.OfPrincipal, quota.OfTenant} {
			t.Run(fmt.Sprint(tt.quota, " of the ", of), func(t *testing.T) {
				limits := quota.Limits{tt.quota: tt.limit}
				var opts quota.Options
				var own quota.Limits
				if of == quota.OfTenant {
					opts.Tenants = map[reprise.Tenant]quota.Limits{"acme": limits}
				} else {
					own = limits
				}
				book := quota.New(&opts)
				w := bounded(t, opts, func(tenant reprise.Tenant, account string) reprise.Quota {
					h := &quota.Holder{Account: quota.Account{Tenant: tenant, Principal: account}}
					if account == "" {
						return book.Kept(h, quota.OfTenant)
					}
					h.Limits = own
					return book.Kept(h, quota.OfPrincipal)
				})
				_, w.token = w.limitedKey("a", "acme", own)
				free := tt.use(w)
				for range 3 {
					tt.more(w).refusedBy(tt.code, tt.quota, of)
				}
				_, other := w.limitedKey("b", "other", nil)
				w.with(other, func() { w.do("PUT", "/v1/streams/other", `{}`).is(201) })
				free()
				w.eventually("there is room again", func() bool { return tt.more(w).status < 300 })
			})
		}
	}
}

// TestStartsAndUploadsComeBackWithTime: rates are refused with the time after which they are there again, and what was
// refused is not counted.
func TestStartsAndUploadsComeBackWithTime(t *testing.T) {
	w := bounded(t, quota.Options{Principal: quota.Limits{quota.Starts: 1, quota.Upload: 1000}}, nil)
	_, w.token = w.limitedKey("a", "default", nil)
	w.do("POST", "/v1/executions", `{"id":"x","command":"true"}`).is(201)
	a := w.do("POST", "/v1/executions", `{"command":"true"}`)
	a.refusedBy("rate_limited", quota.Starts, quota.OfPrincipal)
	w.with(token, func() {
		if got := w.metric(`reprise_quota_refused_total{of="principal",quota="starts"}`); got != "1" {
			t.Errorf("refused starts: %s", got)
		}
	})
	w.do("POST", "/v1/executions", `{"id":"x","command":"true"}`).is(200) // no start
	after, err := time.ParseDuration(a.text("retry_after"))
	if err != nil || after > time.Minute || after <= 0 {
		t.Errorf("retry after %v, %v", after, err)
	}
	w.do("PUT", "/v1/files/content?path=work/small", strings.Repeat("x", 900),
		"Content-Type: application/octet-stream").is(200)
	w.do("PUT", "/v1/files/content?path=work/large", strings.Repeat("x", 2000),
		"Content-Type: application/octet-stream").
		refusedBy("rate_limited", quota.Upload, quota.OfPrincipal)
	_, other := w.limitedKey("b", "default", nil)
	w.with(other, func() { w.do("POST", "/v1/executions", `{"command":"true"}`).is(201) })
	w.token = token // the operator is not bounded
	for range 3 {
		w.do("POST", "/v1/executions", `{"command":"true"}`).is(201)
	}
}

// TestQuotasAreShown: each principal sees its own and its tenant's, and the admin those of all.
func TestQuotasAreShown(t *testing.T) {
	w := bounded(t, quota.Options{
		Principal: quota.Limits{quota.Running: 3, quota.Readers: 9}, Tenant: quota.Limits{quota.Queued: 7},
		Tenants: map[reprise.Tenant]quota.Limits{"acme": {quota.Streams: 100}},
	}, func(reprise.Tenant, string) reprise.Quota { return reprise.Quota{} })
	principal, key := w.limitedKey("ci", "acme", quota.Limits{quota.Running: 5})
	_, bare := w.key("acme", "publish")
	w.with(key, func() {
		w.do("PUT", "/v1/streams/s", `{}`).is(201)
		if a := w.do("GET", "/v1/streams/s", ""); strings.Contains(a.body, reprise.AccountLabel) {
			t.Errorf("the label of the account shows: %s", a.body)
		}
		w.do("PUT", "/v1/streams/t", `{"labels":{"`+reprise.AccountLabel+`":"x"}}`).refused(422, "invalid")
		id := w.do("POST", "/v1/executions", holdsOn).is(201).text("id")
		reader := w.follow("/v1/executions/"+id+"/events", asSSE)
		defer reader.close()
		for name, want := range map[quota.Name]int64{
			quota.Running: 1, quota.Queued: 0, quota.Readers: 1, quota.Streams: 2, quota.Sessions: 0,
		} {
			if got := w.used(name); got != want {
				t.Errorf("%s: %d are used, want %d", name, got, want)
			}
		}
		if w.used(quota.Bytes) < 2*reprise.StreamOverhead {
			t.Errorf("%d bytes", w.used(quota.Bytes))
		}
		w.do("GET", "/v1/quota?tenant=default", "").refused(403, "forbidden")
		w.do("GET", "/v1/quota?principal=token", "").refused(403, "forbidden")
		ticket := w.do("POST", "/v1/tickets", `{"stream":"s"}`).is(201).text("ticket")
		w.do("GET", "/v1/quota?ticket="+ticket, "", "Authorization: ").refused(403, "forbidden")
	})
	w.with(bare, func() { w.do("GET", "/v1/quota", "").is(200) })
	a := w.do("GET", "/v1/quota?tenant=acme&principal="+principal, "").is(200)
	for _, want := range []string{
		`{"quota":"running","of":"principal","used":1,"limit":5}`, `"limit":9}`,
		`{"quota":"queued","of":"tenant","used":0,"limit":7}`, `{"quota":"streams","of":"tenant","used":2,"limit":100}`,
		`{"quota":"bytes","of":"principal","used":`,
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s in %s", want, a.body)
		}
	}
	w.do("GET", "/v1/quota?tenant=acme&principal=none", "").refused(404, "not_found")
	w.do("GET", "/v1/quota?tenant=a%20b", "").refused(400, "invalid")
	if a := w.do("GET", "/v1/quota?tenant=acme", "").is(200); a.member("principal") != nil {
		t.Errorf("a principal: %s", a.body)
	}
	if got := w.metric(`reprise_tenant_quota_limit{quota="streams",tenant="acme"}`); got != "100" {
		t.Errorf("the bound of acme is %q", got)
	}
}

// TestKeysCarryLimits: the quotas of a key come with it and are shown with it, and ones that make no sense are refused.
func TestKeysCarryLimits(t *testing.T) {
	w := start(t, setup{})
	a := w.do("POST", "/v1/keys", `{"name":"ci","scopes":["read"],"limits":{"running":5,"bytes":1048576}}`).is(201)
	if got := w.do("GET", "/v1/keys/"+a.text("id"), "").number("limits", "running"); got != 5 {
		t.Errorf("running %d", got)
	}
	w.do("POST", "/v1/keys", `{"name":"ci","scopes":["read"],"limits":{"walking":5}}`).refused(422, "invalid")
	w.do("POST", "/v1/keys", `{"name":"ci","scopes":["read"],"limits":{"running":-1}}`).refused(422, "invalid")
	w.do("POST", "/v1/keys", `{"name":"ci","scopes":["read"],"limits":{"running":"5"}}`).refused(422, "invalid")
}

// TestLimitsOfAKeyCanBeChanged: the new ones hold for what is asked for next with the same text; what cannot be
// changed is refused and changes nothing.
func TestLimitsOfAKeyCanBeChanged(t *testing.T) {
	w := bounded(t, quota.Options{}, nil)
	made := w.do("POST", "/v1/keys",
		`{"name":"ci","scopes":["publish","read"],"limits":{"readers":1,"starts":9}}`).is(201)
	path := "/v1/keys/" + made.text("id")
	read := func() (got *answer) {
		w.with(made.text("key"), func() { got = w.do("GET", "/v1/streams/r/events?wait=1ms", "") })
		return got
	}
	w.with(made.text("key"), func() {
		w.do("PUT", "/v1/streams/r", `{}`).is(201)
		open := w.follow("/v1/streams/r/events", asSSE)
		t.Cleanup(open.close)
	})
	read().refused(429, "too_many_readers")
	now := w.do("PUT", path+"/limits", `{"limits":{"readers":2}}`).is(200)
	if got := fmt.Sprint(now.member("limits")); got != "map[readers:2]" || now.member("key") != nil {
		t.Errorf("changed to %s", now.body)
	}
	read().is(200)
	w.do("PUT", path+"/limits", `{"limits":{"readers":1}}`).is(200)
	for _, body := range []string{`{"limits":{"walking":5}}`, `{"limits":{"readers":-1}}`, `{}`, `{"limits":null}`} {
		w.do("PUT", path+"/limits", body).refused(422, "invalid")
	}
	read().refused(429, "too_many_readers")
	w.do("PUT", path+"/limits", `{"limits":{}}`).is(200)
	read().is(200)
	w.do("PUT", "/v1/keys/none/limits", `{"limits":{}}`).refused(404, "not_found")
	w.do("DELETE", path, "").is(204)
	w.do("PUT", path+"/limits", `{"limits":{}}`).refused(409, "conflict")
}

// TestClientsThatGoLeaveNothing: readers that are cut off in the middle are given back.
func TestClientsThatGoLeaveNothing(t *testing.T) {
	w := bounded(t, quota.Options{}, nil)
	_, w.token = w.limitedKey("a", "default", quota.Limits{quota.Readers: 3})
	w.do("PUT", "/v1/streams/s", `{}`).is(201)
	for range 20 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/v1/streams/s/events", nil)
		w.ok(err)
		req.Header.Set("Authorization", "Bearer "+w.token)
		req.Header.Set("Accept", "text/event-stream")
		transport := &http.Transport{DisableKeepAlives: true}
		res, err := transport.RoundTrip(req)
		w.ok(err)
		if res.StatusCode == http.StatusOK {
			_, err = io.ReadFull(res.Body, make([]byte, 1))
			w.ok(err)
		}
		_ = res.Body.Close()
		transport.CloseIdleConnections()
	}
	w.eventually("no reader is counted", func() bool { return w.used(quota.Readers) == 0 })
}
