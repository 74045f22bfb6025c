package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/datadir"
	"reprise/internal/serverproof"
)

// TestShortTokenIsNotProven: whoever asks gets a proof, and could guess a short token with it.
func TestShortTokenIsNotProven(t *testing.T) {
	n := &Node{Options: Options{Secrets: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}}
	for length, want := range map[int]bool{serverproof.MinToken - 1: false, serverproof.MinToken: true} {
		token := strings.Repeat("x", length)
		if err := os.WriteFile(filepath.Join(n.Secrets, datadir.TokenFile), []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := n.proofToken() == token; got != want {
			t.Errorf("a token of %d characters is proven: %t", length, got)
		}
	}
}
