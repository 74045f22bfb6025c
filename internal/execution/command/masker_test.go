package command

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// maskAll feeds pieces to a masker and returns all that it gives out.
func maskAll(secrets []string, pieces [][]byte) string {
	m := newMasker(secrets)
	var out []byte
	for _, piece := range pieces {
		out = append(out, m.feed(piece)...)
	}
	return string(append(out, m.rest()...))
}

func TestMaskerFindsSecretsInAnyPieces(t *testing.T) {
	for _, tt := range []struct {
		secrets   []string
		text, out string
	}{
		{[]string{"hunter2"}, "the password is hunter2.", "the password is ***."},
		{[]string{"hunter2"}, "hunter2hunter2", "******"},
		{[]string{"hunter2"}, "hunterhunter2hunter", "hunter***hunter"},
		{[]string{"aaaa"}, "aaaaaaaaa", "******a"},
		{[]string{"abab"}, "ababab", "***ab"},
		{[]string{"abcdef", "cd"}, "abcdef abcd ef", "*** ab*** ef"},
		{[]string{"abc", "abcdef"}, "abcdef abcde", "*** ***de"},
		{[]string{"one\ntwo"}, "is one\ntwo\n", "is ***\n"},
		{[]string{"schlüssel"}, "ein schlüssel", "ein ***"},
		{[]string{"hunter2"}, "hunter", "hunter"},
	} {
		text := []byte(tt.text)
		for _, size := range []int{1, 2, 3, len(text)} {
			var pieces [][]byte
			for rest := text; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				pieces = append(pieces, rest[:min(size, len(rest))])
			}
			if got := maskAll(tt.secrets, pieces); got != tt.out {
				t.Errorf("%q without %q, %d bytes at a time: %q, want %q", tt.text, tt.secrets, size, got, tt.out)
			}
		}
	}
}

// TestMaskerDoesNotDependOnPieces: however the output comes, the same is masked, nothing is lost, and what cannot begin
// a secret is given out at once.
func TestMaskerDoesNotDependOnPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	letters := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab\n"[random.IntN(3)]
		}
		return b
	}
	for range 5000 {
		var secrets []string
		for range 1 + random.IntN(3) {
			secrets = append(secrets, string(letters(4+random.IntN(5))))
		}
		text := letters(random.IntN(60))
		whole := maskAll(secrets, [][]byte{text})
		var pieces [][]byte
		for rest := text; len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := maskAll(secrets, pieces); got != whole {
			t.Fatalf("%q without %q: %q in pieces %q, and %q at once", text, secrets, got, pieces, whole)
		}
		for _, s := range secrets {
			if strings.Contains(whole, s) {
				t.Fatalf("%q without %q: %q", text, secrets, whole)
			}
		}
	}
	m := newMasker([]string{"hunter2"})
	if got := m.feed([]byte("a prompt> ")); string(got) != "a prompt> " {
		t.Errorf("held back: %q", got)
	}
	if got := m.feed([]byte("hunt")); len(got) != 0 {
		t.Errorf("given out: %q", got)
	}
	if got := m.feed([]byte("ed")); string(got) != "hunted" {
		t.Errorf("%q", got)
	}
}

func BenchmarkMasker(b *testing.B) {
	text := bytes.Repeat([]byte("a line of output that has no secret in it\n"), 800)
	m := newMasker([]string{"rp_k7x2m9q4wd_0123456789abcdef", "hunter2hunter2"})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m.feed(text)
	}
}
