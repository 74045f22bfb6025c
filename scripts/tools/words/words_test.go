package main

import "testing"

// TestPhrases: each pattern finds the sentences that were written, and nothing in those that took their place.
func TestPhrases(t *testing.T) {
	for _, row := range []struct{ today, plain string }{
		{"show shows what the name is that of.", "show prints the execution, stream or session called Name."},
		{"localKeys are those of no server.", "localKeys changes keys on disk when no server runs."},
		{"What was made of it stays the caller's.", "The caller keeps ownership of log, host and gate."},
		{"the watches for whom they are there", "the watches, or an error if the caller may not use files"},
		{"one because the name is that of a stream", "whether err means that name is a stream"},
		{"Those who do not let go are cut off.", "Connections that do not finish in time are closed."},
		{"A refusal by what was believed is none.", "A rejection based on cached state is not final."},
		{"of nobody: all who get here own the directory", "no quotas: every caller owns the data directory"},
		{"an order of which\nnothing is known", "an unknown order"},
		{"readers are told\nwhat is gone", "readers get an error that names what is gone"},
		{"an error is none of ours", "or nil if there is none"},
		{"the log tells how many", "the log reports how many"},
	} {
		found := func(text string) int {
			f := &folder{}
			f.add("x.go", 1, text)
			return len(f.found)
		}
		if n := found(row.today); n == 0 {
			t.Errorf("nothing is found in %q", row.today)
		}
		if n := found(row.plain); n != 0 {
			t.Errorf("%d phrases are found in %q", n, row.plain)
		}
	}
}

// TestBound: a small folder may have one finding, a large one 5 in 10,000 words.
func TestBound(t *testing.T) {
	for words, want := range map[int]int{0: 1, 1999: 1, 2000: 2, 20_000: 11} {
		if got := (&folder{words: words}).free(); got != want {
			t.Errorf("%d words: %d, want %d", words, got, want)
		}
	}
}
