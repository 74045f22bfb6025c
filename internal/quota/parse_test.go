package quota_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/internal/quota"
)

// TestParseTenants: a limit is for each tenant or for a named one, and what cannot be counted is refused.
func TestParseTenants(t *testing.T) {
	each, named, err := quota.ParseTenants([]string{"running=5", "acme:bytes=1GiB", "acme: starts =7"}, nil)
	want := map[reprise.Tenant]quota.Limits{"acme": {"bytes": 1 << 30, "starts": 7}}
	if err != nil || !cmp.Equal(each, quota.Limits{"running": 5}) || !cmp.Equal(named, want) {
		t.Errorf("%v, %v, %v", each, named, err)
	}
	for _, text := range []string{
		"running", "running=", "running=1GiB", "running=-1", "walks=1", "a b:running=1", ":running=1",
	} {
		if _, _, err := quota.ParseTenants([]string{text}, nil); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := quota.ParseLimits([]string{"running=1", "running=2"}, nil); err == nil {
		t.Error("a quota is taken twice")
	}
	if _, err := quota.ParseLimits([]string{"running=1"}, []quota.Name{"calls"}); err == nil {
		t.Error("a quota is taken that is not counted")
	}
}
