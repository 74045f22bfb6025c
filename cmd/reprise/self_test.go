package main

import "testing"

func TestSelfNamesTypableCommand(t *testing.T) {
	same := func(a, b string) bool { return a == b }
	for _, tt := range []struct{ path, found, want string }{
		{"/usr/bin/reprise", "/usr/bin/reprise", "reprise"},
		{"/src/bin/reprise", "/usr/bin/reprise", "/src/bin/reprise"},
		{"/src/bin/reprise", "", "/src/bin/reprise"},
		{"/tmp/go-build123/b001/exe/reprise", "", "go run ./cmd/reprise"},
		{"/home/u/.cache/go-build/3a/3a5f-d/reprise", "/usr/bin/reprise", "go run ./cmd/reprise"},
	} {
		if got := selfText(tt.path, tt.found, same); got != tt.want {
			t.Errorf("self of %s with %q in the PATH: %q, want %q", tt.path, tt.found, got, tt.want)
		}
	}
}

func TestWindowsIsAClientAlone(t *testing.T) {
	for _, tt := range []struct {
		goos, verb, mcpURL string
		refused            bool
	}{
		{"windows", "serve", "", true},
		{"windows", "gateway", "", true},
		{"windows", "store", "", true},
		{"windows", "doctor", "", true},
		{"windows", "mcp", "", true},
		{"windows", "mcp", "http://127.0.0.1:7070", false},
		{"windows", "run", "", false},
		{"windows", "publish", "", false},
		{"linux", "serve", "", false},
		{"darwin", "serve", "", false},
	} {
		if err := unavailable(tt.goos, tt.verb, tt.mcpURL); (err != nil) != tt.refused {
			t.Errorf("%s on %s: %v", tt.verb, tt.goos, err)
		}
	}
}
