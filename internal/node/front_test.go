package node

import (
	"strings"
	"testing"

	"reprise/internal/httpserver"
)

// TestURLOfAllAddresses: where the server listens at all addresses, the URL that it prints leads to it.
func TestURLOfAllAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:0": "http://127.0.0.1:", "127.0.0.2:0": "http://127.0.0.2:", ":0": "http://127.0.0.1:",
	} {
		f, err := listenFront(t.Context(), nil, address, nil, &httpserver.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.url(); !strings.HasPrefix(got, want) {
			t.Errorf("listening at %q is told as %q", address, got)
		}
		if err := f.close(); err != nil {
			t.Error(err)
		}
	}
}
