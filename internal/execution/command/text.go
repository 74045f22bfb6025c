package command

import (
	"strings"
	"unicode/utf8"
)

// Shorten cuts s to about n bytes, between runes, and shows that it did.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-incompleteRune([]byte(s[:n]))], "") + "..."
}

// incompleteRune returns the number of bytes at the end of b that begin a rune without completing it.
func incompleteRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
