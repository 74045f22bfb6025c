package gateway_test

import (
	"net/http"
	"testing"

	"reprise"
	"reprise/internal/gateway"
)

// as makes each request in the name of a principal.
type as string

func (p as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Test-Principal", string(p))
	return http.DefaultTransport.RoundTrip(r)
}

// TestPrincipalsDoNotShareAConnection (G8): clients without a session share a connection to the upstream with those of
// their own principal alone.
func TestPrincipalsDoNotShareAConnection(t *testing.T) {
	f := newFixture(t, gateway.Upstream{})
	f.opts.Identify = func(r *http.Request) (reprise.Tenant, string, error) {
		return reprise.DefaultTenant, r.Header.Get("Test-Principal"), nil
	}
	f.start()
	pidOf := func(principal string) string {
		f.client = &http.Client{Transport: as(principal)}
		pid, err := call(f.connect("2026-07-28", nil), "pid", nil)
		check(t, err)
		return pid
	}
	_ = pidOf("ann") // from now on it is known what the upstream speaks
	ann, again, bob := pidOf("ann"), pidOf("ann"), pidOf("bob")
	if ann != again {
		t.Errorf("one principal has the processes %s and %s", ann, again)
	}
	if ann == bob {
		t.Error("two principals share a process")
	}
}
