package webhook_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/webhook"
)

// Addresses that are not public are refused: those in the URL when the webhook is made, and those of a name when the
// connection is made.
func TestReceiverAddressIsChecked(t *testing.T) {
	r := newReceiver(t, nil)
	secure := httptest.NewTLSServer(r.Config.Handler)
	t.Cleanup(secure.Close)
	f := newFixture(t, webhook.Options{Allow: []netip.Prefix{}})
	for _, url := range []string{
		r.URL, secure.URL, "http://[::1]:1/", "https://10.0.0.1/", "https://[::ffff:127.0.0.1]/",
		"https://169.254.169.254/latest/meta-data", "https://0.0.0.0/", "https://[fd00::1]/",
		"https://[64:ff9b::7f00:1]/",
		"https://[::ffff:0:7f00:1]/",
		"https://100.64.0.1/", "https://[fe80::1]/",
	} {
		_, err := f.hooks.Add(t.Context(), webhook.Request{Tenant: tenant, URL: url})
		refused, ok := errors.AsType[*webhook.FieldError](err)
		if !ok || refused.Field != "url" || refused.Reason != webhook.ErrAddress.Error() {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{r.URL, secure.URL} {
		hook := f.add(webhook.Request{URL: strings.Replace(url, "127.0.0.1", "localhost", 1)})
		answer, err := f.hooks.Test(t.Context(), tenant, hook.ID)
		if err != nil || answer.Status != 0 || answer.Error != webhook.ErrAddress.Error() {
			t.Errorf("%s: %+v, %v", hook.URL, answer, err)
		}
	}
	if r.count() != 0 {
		t.Errorf("%d requests came", r.count())
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	r := newReceiver(t, func(int, *delivery) int { return 307 })
	other := newReceiver(t, nil)
	r.header.Set("Location", other.URL)
	f := newFixture(t, webhook.Options{})
	hook := f.add(webhook.Request{URL: r.URL})
	answer, err := f.hooks.Test(t.Context(), tenant, hook.ID)
	if err != nil || answer.Status != 307 || answer.Error == "" || other.count() != 0 {
		t.Errorf("%+v, %v, and %d requests elsewhere", answer, err, other.count())
	}
}

// After a rotation both secrets sign, and once the overlap is over the new one alone.
func TestRotationSignsWithBothSecrets(t *testing.T) {
	r := newReceiver(t, nil)
	f := newFixture(t, webhook.Options{})
	hook := f.add(webhook.Request{URL: r.URL, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
	test := func() *delivery {
		t.Helper()
		n := r.count()
		if answer, err := f.hooks.Test(t.Context(), tenant, hook.ID); err != nil || answer.Status != 204 {
			t.Fatal(answer, err)
		}
		return &r.await(t, n+1)[n]
	}
	first := hook.Secrets[0].Text
	second, err := f.hooks.Rotate(t.Context(), tenant, hook.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	d := test()
	want := signatureOf(second.Secrets[0].Text, d) + " " + signatureOf(first, d)
	if d.header.Get("webhook-signature") != want {
		t.Errorf("signed with %q, want %q", d.header.Get("webhook-signature"), want)
	}
	third, err := f.hooks.Rotate(t.Context(), tenant, hook.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	d = test()
	if want := signatureOf(third.Secrets[0].Text, d); d.header.Get("webhook-signature") != want {
		t.Errorf("signed with %q, want %q", d.header.Get("webhook-signature"), want)
	}
	shown, err := json.Marshal(third.Public())
	if err != nil || strings.Contains(string(shown), "whsec_") {
		t.Errorf("shown: %s, %v", shown, err)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	f := newFixture(t, webhook.Options{MaxPerTenant: 1})
	const url = "https://hooks.example.com/x"
	for field, q := range map[string]webhook.Request{
		"url":    {URL: "ftp://example.com"},
		"source": {URL: url, Source: "files"},
		"stream": {URL: url, Source: webhook.Streams, Stream: "execution:x"},
		"types":  {URL: url, Types: []string{"note"}},
		"prefix": {URL: url, Prefix: "a:b"},
		"secret": {URL: url, Secret: "whsec_c2hvcnQ="},
	} {
		q.Tenant = tenant
		_, err := f.hooks.Add(t.Context(), q)
		if refused, ok := errors.AsType[*webhook.FieldError](err); !ok || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, bad := range []string{"https://user:pass@example.com", "https://", "https://example.com/#x", "://"} {
		_, err := f.hooks.Add(t.Context(), webhook.Request{Tenant: tenant, URL: bad})
		if !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	hook := f.add(webhook.Request{URL: url})
	_, err := f.hooks.Add(t.Context(), webhook.Request{Tenant: tenant, URL: url})
	if !errors.Is(err, reprise.ErrQuota) {
		t.Errorf("one more: %v", err)
	}
	if _, err := f.hooks.Find("other", hook.ID); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("another tenant: %v", err)
	}
	if err := f.hooks.Remove(t.Context(), tenant, hook.ID); err != nil {
		t.Fatal(err)
	}
	if err := f.hooks.Remove(t.Context(), tenant, hook.ID); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("removed again: %v", err)
	}
}
