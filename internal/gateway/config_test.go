package gateway_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/internal/gateway"
)

func TestReadConfigReturnsRoutes(t *testing.T) {
	t.Setenv("REPRISE_TEST_TOKEN", "s3cret")
	routes, err := gateway.ReadConfig(strings.NewReader(`
upstreams:
  weather:
    path: /tools/weather
    url: https://weather.example/mcp
    header: {Authorization: "Bearer ${REPRISE_TEST_TOKEN}"}
    shared: true
  files:
    command: [npx, files, /tmp]
    dir: /srv
    env: {A: "$B"}
    pass_env: [C]
    keeps_state: true
    timeout: 90s
    start_timeout: 1m
    max_connections: 7
    max_calls: 8
    idle: 10m
  all:
    merge:
      b: {url: "https://b.example/mcp", header: {X: "${REPRISE_TEST_TOKEN}"}}
      a: {command: [a], env: {A: "1"}}
`))
	check(t, err)
	want := []gateway.Route{
		{Path: "/all", Upstream: gateway.Upstream{
			Name: "all", Env: map[string]string{}, Header: map[string]string{},
			Merge: []gateway.Upstream{
				{Name: "a", Command: []string{"a"}, Env: map[string]string{"A": "1"}, Header: map[string]string{}},
				{
					Name:   "b",
					URL:    "https://b.example/mcp",
					Env:    map[string]string{},
					Header: map[string]string{"X": "s3cret"},
				},
			},
		}},
		{Path: "/files", Upstream: gateway.Upstream{
			Name: "files", Command: []string{
				"npx", "files", "/tmp",
			}, Dir: "/srv", Env: map[string]string{"A": "$B"}, PassEnv: []string{"C"},
			Header: map[string]string{}, KeepsState: true, Timeout: 90 * time.Second, StartTimeout: time.Minute,
			MaxConnections: 7, MaxCalls: 8, Idle: 10 * time.Minute,
		}},
		{Path: "/tools/weather", Upstream: gateway.Upstream{
			Name:   "weather",
			URL:    "https://weather.example/mcp",
			Env:    map[string]string{},
			Header: map[string]string{"Authorization": "Bearer s3cret"},
			Shared: true,
		}},
	}
	if diff := cmp.Diff(want, routes); diff != "" {
		t.Error(diff)
	}
}

func TestReadConfigRefusesInvalidFile(t *testing.T) {
	for text, part := range map[string]string{
		"":              "configuration",
		"upstreams: {}": "no upstreams",
		"upstreams: {a: {command: [x]}}\n---\na: 1":                             "configuration",
		"upstreams: {a: {command: [x], retries: 3}}":                            "retries",
		"servers: {a: {command: [x]}}":                                          "servers",
		"upstreams: {a: {}}":                                                    "neither",
		"upstreams: {a: {command: [x], url: http://y}}":                         "both",
		"upstreams: {a: {url: 'ftp://y'}}":                                      "not an http",
		"upstreams: {a b: {command: [x]}}":                                      "name",
		"upstreams: {a: {command: [x], path: /../b}}":                           "cannot be served",
		"upstreams: {a: {command: [x], path: /metrics}}":                        "cannot be served",
		"upstreams: {a: {command: [x], timeout: -1s}}":                          "negative",
		"upstreams: {a: {command: [x], pass_env: [A=B]}}":                       "pass_env A=B: it takes the name of a variable, without a value",
		"upstreams: {a: {merge: {b: {command: [x], pass_env: [C, A=B]}}}}":      "b: pass_env A=B: it takes the name",
		"upstreams: {a: {command: [x], dir: here}}":                             "not absolute",
		"upstreams: {a: {command: [x], env: {A: '${REPRISE_NO_SUCH}'}}}":        "REPRISE_NO_SUCH",
		"upstreams: {a: {command: [x], path: /p}, b: {command: [x], path: /p}}": "same path",
		"upstreams: {a: {merge: {b_c: {command: [x]}}}}":                        "begin with a letter",
		"upstreams: {a: {merge: {b: {}}}}":                                      "b: neither",
		"upstreams: {a: {url: 'http://y', merge: {b: {command: [x]}}}}":         "itself",
		"upstreams: {a: {merge: {b: {command: [x], shared: true}}}}":            "shared",
		"upstreams: {a: {keeps_state: true, merge: {b: {command: [x]}}}}":       "cannot keep state",
	} {
		_, err := gateway.ReadConfig(strings.NewReader(text))
		if !errors.Is(err, reprise.ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, and not %q", text, err, part)
		}
	}
}
