// Package jsonscan scans JSON text in one pass without decoding values.
//
// It accepts exactly the texts that RFC 8259 allows and encoding/json accepts, up to [MaxDepth]. It is for programs
// that pass on a value unchanged and need to know where it ends.
package jsonscan

import (
	"cmp"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// MaxDepth is how deeply arrays and objects may be nested in a value that [Value] accepts. encoding/json takes
// 10,000 levels, more than the decoders of many languages: Python's takes about 1,000.
const MaxDepth = 512

// Depth returns how deeply arrays and objects are nested in text, up to the first string that is not valid.
func Depth(text []byte) (most int) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end, _, ok := String(text, i)
			if !ok {
				return most
			}
			i = end - 1
		case '[', '{':
			depth++
			most = max(most, depth)
		case ']', '}':
			depth--
		}
	}
	return most
}

// Space returns the index of the first byte of text at or after i that is not JSON white space.
func Space(text []byte, i int) int {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// String scans the string whose opening quote is text[i]. End is the index after its closing quote, and plain is
// true if it holds no escape. It does not check that the string is valid UTF-8.
func String(text []byte, i int) (end int, plain, ok bool) {
	if i >= len(text) || text[i] != '"' {
		return 0, false, false
	}
	plain = true
	for i++; ; i++ {
		i = skipPlain(text, i)
		if i >= len(text) {
			return 0, false, false
		}
		switch c := text[i]; {
		case c == '"':
			return i + 1, plain, true
		case c == '\\':
			plain = false
			if i = escape(text, i); i < 0 {
				return 0, false, false
			}
		case c < ' ':
			return 0, false, false
		}
	}
}

// skipPlain returns the index of the first quote, backslash or control character at or after i, or
// of one of the seven bytes before it. It looks at eight bytes at a time.
func skipPlain(text []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// A byte of x is zero where x-ones borrows into a high bit that x does not have; the
		// last term finds bytes below ' ' likewise.
		if ((quote-ones)&^quote|(slash-ones)&^slash|(w-ones*' ')&^w)&highs != 0 {
			return i
		}
	}
	return i
}

// escape returns the index of the last byte of the escape that begins at text[i], or -1.
func escape(text []byte, i int) int {
	if i++; i >= len(text) {
		return -1
	}
	switch text[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		if i+4 >= len(text) {
			return -1
		}
		for _, c := range text[i+1 : i+5] {
			if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
				return -1
			}
		}
		return i + 4
	}
	return -1
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Value scans the value that begins at text[i]. End is the index after it, and compact is true if it
// holds no white space outside of strings. It does not check that strings are valid UTF-8.
func Value(text []byte, i int) (end int, compact, ok bool) {
	s := scanner{text: text, i: i, compact: true}
	if !s.value() {
		return 0, false, false
	}
	return s.i, s.compact, true
}

type scanner struct {
	text    []byte
	i       int
	depth   int
	compact bool
}

// space passes over white space and reports whether a byte is left.
func (s *scanner) space() bool {
	if s.i < len(s.text) && s.text[s.i] > ' ' {
		return true
	}
	at := s.i
	s.i = Space(s.text, s.i)
	s.compact = s.compact && s.i == at
	return s.i < len(s.text)
}

func (s *scanner) value() bool {
	if s.i >= len(s.text) {
		return false
	}
	switch c := s.text[s.i]; {
	case c == '"':
		return s.string()
	case c == '{':
		return s.nested('}', s.member)
	case c == '[':
		return s.nested(']', s.value)
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return false
}

func (s *scanner) word(word string) bool {
	if len(s.text)-s.i < len(word) || string(s.text[s.i:s.i+len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

func (s *scanner) string() bool {
	end, _, ok := String(s.text, s.i)
	if ok {
		s.i = end
	}
	return ok
}

// nested scans an array or an object up to the byte last.
func (s *scanner) nested(last byte, item func() bool) bool {
	if s.depth++; s.depth > MaxDepth {
		return false
	}
	defer func() { s.depth-- }()
	s.i++
	if !s.space() {
		return false
	}
	if s.text[s.i] == last {
		s.i++
		return true
	}
	for {
		if !item() || !s.space() {
			return false
		}
		c := s.text[s.i]
		s.i++
		if c == last {
			return true
		}
		if c != ',' || !s.space() {
			return false
		}
	}
}

// member scans a name, a colon and a value.
func (s *scanner) member() bool {
	if !s.string() || !s.space() || s.text[s.i] != ':' {
		return false
	}
	s.i++
	return s.space() && s.value()
}

// number scans -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *scanner) number() bool {
	s.skip('-', '-')
	switch {
	case s.skip('0', '0'):
	case !s.digits():
		return false
	}
	if s.skip('.', '.') && !s.digits() {
		return false
	}
	if s.skip('e', 'E') {
		s.skip('+', '-')
		return s.digits()
	}
	return true
}

// skip passes over one byte if it is one of two.
func (s *scanner) skip(a, b byte) bool {
	if s.i < len(s.text) && (s.text[s.i] == a || s.text[s.i] == b) {
		s.i++
		return true
	}
	return false
}

// digits passes over digits and reports whether there was one.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.text) && isDigit(s.text[s.i]) {
		s.i++
	}
	return s.i > start
}

// The errors of Integer.
var (
	ErrFraction = errors.New("the number is not whole")
	ErrTooLarge = errors.New("the number is too large")
)

// maxDigits is the number of digits of the largest uint64.
const maxDigits = 20

// Integer returns the digits of a JSON number that is an integer for JSON Schema, however it is written: 1000 for 1e3,
// 1.0e3 and 1000.0. Numbers of more than 20 digits are too large.
func Integer(number string) (string, error) {
	digits, sign := number, ""
	if rest, negative := strings.CutPrefix(number, "-"); negative {
		digits, sign = rest, "-"
	}
	digits, exponentText, _ := strings.Cut(strings.ToLower(digits), "e")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return "0", nil
	}
	exponent, err := strconv.Atoi(cmp.Or(exponentText, "0"))
	switch {
	case err != nil && strings.HasPrefix(exponentText, "-"):
		return "", ErrFraction // 1e-99999999999999999999; no text has as many zeros
	case err != nil || exponent > len(number)+maxDigits:
		return "", ErrTooLarge
	}
	zeros := len(digits) - len(significant) + exponent - len(fraction)
	switch {
	case zeros < 0:
		return "", ErrFraction
	case len(significant)+zeros > maxDigits:
		return "", ErrTooLarge
	}
	return sign + significant + strings.Repeat("0", zeros), nil
}
