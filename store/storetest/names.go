package storetest

import (
	"strings"

	"reprise"
)

const (
	ruleNames   = "Name is 1 to 255 bytes of letters, digits, '.', '_', '-' and '/', with no empty, \".\" or \"..\" segment, for example \"builds/linux.amd64\"."
	ruleTenants = "It is 1 to 64 bytes of letters, digits, '.', '_' and '-'."
)

var nameChecks = []check{
	{name: "streams", rule: ruleNames, run: func(e *env) { separate(e, hostileNames()) }},
	{name: "tenants", rule: ruleTenants, run: func(e *env) {
		var keys []reprise.StreamKey
		for _, tenant := range hostileTenants() {
			keys = append(keys, reprise.StreamKey{Tenant: tenant, Name: "s"},
				reprise.StreamKey{Tenant: tenant, Name: "a-b/c"})
		}
		separate(e, keys)
	}},
}

// hostileNames returns valid names that a Store may mistake for others.
func hostileNames() []reprise.StreamKey {
	long := strings.Repeat("x", 254)
	names := []string{
		"a", "A", "aA", "Aa", "a.", ".a", "a..", "..a", "...", "a/b", "a/B", "a.b", "a-b", "a_b", "ab", "a/b/c",
		"a/...",
		"_", "-", "--", "-1", "0", "1", "01", "1e3", "0x1", "null", "NULL", "true", "nan", "con", "aux.txt",
		".git/config",
		"SELECT", "drop-table-streams", "streams", "sqlite_master", "pg_catalog", "key.with.dots", "__proto__",
		"execution:a", "execution:A", "Execution:a", "execution:a/b", "e:a", "e.:a", "..:a", ":a",
		"i", "I", "ss", "SS", // case folding has made one of these
		long + "a", long + "A", long, strings.Repeat("a/", 127) + "a", strings.Repeat(".", 255),
	}
	keys := make([]reprise.StreamKey, 0, len(names))
	for _, name := range names {
		if k := key(name); k.Validate() == nil {
			keys = append(keys, k)
		}
	}
	return keys
}

func hostileTenants() []reprise.Tenant {
	long := strings.Repeat("t", 63)
	tenants := []string{
		"a", "A", "a.", ".a", ".", "..", "a-b", "a_b", "a.b", "0", "00", "null", "default", "Default", "default.",
		long, long + "a", long + "A", "-", "--",
	}
	all := make([]reprise.Tenant, len(tenants))
	for i, t := range tenants {
		all[i] = reprise.Tenant(t)
	}
	return all
}

// separate checks that streams do not affect each other.
func separate(e *env, keys []reprise.StreamKey) {
	streams := make([]*stream, len(keys))
	for i, k := range keys {
		if err := k.Validate(); err != nil {
			e.failf("the suite's own: %w", err)
		}
		streams[i] = e.createKey(k, reprise.StreamConfig{}).append(1+i%3, 2)
	}
	reqs := make([]reprise.AppendRequest, len(streams))
	for i, s := range streams {
		reqs[i] = s.request(1 + i%2)
	}
	if errs := e.store.Append(e.ctx, reqs); errs != nil {
		e.failf("append to all: %v", errs)
	}
	for i, s := range streams {
		s.accepted(reqs[i])
	}
	for i, s := range streams {
		if i%2 == 0 {
			s.remove(reprise.RemoveSpec{})
		}
	}
	var left []reprise.StreamInfo
	for i, s := range streams {
		if i%2 == 0 {
			s.gone(reprise.ErrNotFound)
			continue
		}
		s.same()
		left = append([]reprise.StreamInfo{s.state()}, left...)
	}
	e.listed(everything, left...)
}
