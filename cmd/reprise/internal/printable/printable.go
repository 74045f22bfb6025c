// Package printable makes the text of a server harmless to a terminal.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line replaces characters with which a server's text could move the cursor of a terminal or change the order of
// text.
func Line(s string) string { return strings.Map(Rune, s) }

// Text is Line for a text of several lines.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return Rune(r)
	}, s)
}

// Rune replaces controls (C0, DEL, C1), the marks that change the direction of text, and the separators that
// some terminals take for a new line.
func Rune(r rune) rune {
	switch {
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
		return '\uFFFD'
	}
	return r
}

// JSON escapes in a line of JSON the characters that Line replaces. The value remains the same: JSON
// allows them in strings only, and none is beyond U+FFFF.
func JSON(line []byte) []byte {
	escaped := make([]byte, 0, len(line))
	for _, r := range string(line) {
		if Rune(r) != r {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}
