package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/serverproof"
)

// TestShortTokenIsNotProven: whoever asks gets a proof, and could guess a short token with it.
func TestShortTokenIsNotProven(t *testing.T) {
	c := &serveCmd{}
	c.Data = t.TempDir()
	s := &server{logger: slog.New(slog.DiscardHandler)}
	for length, want := range map[int]bool{serverproof.MinToken - 1: false, serverproof.MinToken: true} {
		token := strings.Repeat("x", length)
		if err := os.WriteFile(filepath.Join(c.Data, tokenFile), []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := s.proofToken(c) == token; got != want {
			t.Errorf("a token of %d characters is proven: %t", length, got)
		}
	}
}
