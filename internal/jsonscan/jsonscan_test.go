package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"reprise/internal/jsonscan"
)

var texts = []string{
	`0`, `-0`, `01`, `1.`, `.5`, `-`, `1e5`, `1E+5`, `1e-`, `1.25e-3`, `12345678901234567890123`, `--1`, `+1`,
	`""`, `"abcdefgh\n"`, `"a\"b"`, `"\u00e9\ud800"`, `"\u12g4"`, `"\x"`, `"`, `"\`, `"\u12"`,
	"\"a\nb\"", "\"\x1f\"", "\"\x7f\"",
	`"12345678` + "\t" + `"`, `"é€😀"`, "\"abcdefg\xff\"", "\"abcdefgh\x80\"",
	`true`, `false`, `null`, `nul`, `True`, `truex`,
	`[]`, `[ ]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[1`, `[[[]]]`, `[1 , 2 ]`,
	`{}`, `{"a":1}`, `{"a" : 1 , "b":[{}]}`, `{"a":1,}`, `{a:1}`, `{"a"}`, `{"a":}`, `{"a":1 "b":2}`, `{"a":1`, `{1:2}`,
	`{"a":"b","a":"c"}`, "{\r\n\t\"a\": 1\n}", "\v1", "",
}

// check holds Value against encoding/json on one text: whole values are valid, and the parts of a text that Value
// calls a value are.
func check(t *testing.T, text []byte) {
	t.Helper()
	end, compact, ok := jsonscan.Value(text, 0)
	if !ok {
		if json.Valid(text) && !bytes.ContainsAny(text[:1], " \t\r\n") && jsonscan.Depth(text) <= jsonscan.MaxDepth {
			t.Errorf("%q is refused", text)
		}
		return
	}
	if !json.Valid(text[:end]) {
		t.Errorf("%q: %q is taken for a value", text, text[:end])
	}
	if whole := len(bytes.TrimRight(text, " \t\r\n")) == end; json.Valid(text) && !whole {
		t.Errorf("%q: the value ends at %d", text, end)
	}
	var packed bytes.Buffer
	if err := json.Compact(&packed, text[:end]); err != nil {
		t.Fatal(err)
	}
	if same := bytes.Equal(packed.Bytes(), text[:end]); same != compact {
		t.Errorf("%q: compact is %v", text[:end], compact)
	}
}

func TestDepthCountsNestedValuesOutsideStrings(t *testing.T) {
	for text, want := range map[string]int{
		``: 0, `1`: 0, `"[[{"`: 0, `"\"[["`: 0, `[]`: 1, `[{},{}]`: 2, `{"a":[1,"]}",[{}]]}`: 4, `[[[`: 3, `[["[[`: 2,
		`]][`: 0,
	} {
		if got := jsonscan.Depth([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

func TestValueAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range texts {
		check(t, []byte(text))
		check(t, []byte(text+" ,"))
	}
	for _, levels := range []int{jsonscan.MaxDepth, jsonscan.MaxDepth + 1} {
		text := strings.Repeat("[", levels) + strings.Repeat("]", levels)
		if _, _, ok := jsonscan.Value([]byte(text), 0); ok != (levels <= jsonscan.MaxDepth) {
			t.Errorf("%d levels: %v", levels, ok)
		}
	}
}

// TestStringFindsEachByte puts every byte at each place of a string of two words.
func TestStringFindsEachByte(t *testing.T) {
	for at := range 16 {
		for c := range 256 {
			text := []byte(`"................"`)
			text[1+at] = byte(c)
			check(t, text)
		}
	}
}

func FuzzValue(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 0 {
			check(t, text)
		}
	})
}

func TestIntegerHoweverItIsWritten(t *testing.T) {
	for number, want := range map[string]string{
		"0": "0", "-0": "0", "0.000e99": "0", "-0.0": "0", "7": "7", "7.0": "7", "1e3": "1000", "1.0E+3": "1000",
		"-12.50e2": "-1250", "1000e-3": "1", "0.001e3": "1", "1e19": "10000000000000000000",
		"18446744073709551615": "18446744073709551615", "0e999999999999999999999": "0",
	} {
		if got, err := jsonscan.Integer(number); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", number, got, err, want)
		}
	}
	for number, want := range map[string]error{
		"0.5": jsonscan.ErrFraction, "1e-1": jsonscan.ErrFraction, "1.25e1": jsonscan.ErrFraction,
		"1e-99999999999999999999": jsonscan.ErrFraction, "1e20": jsonscan.ErrTooLarge, "1e400": jsonscan.ErrTooLarge,
		"1e99999999999999999999": jsonscan.ErrTooLarge, "-1e9223372036854775807": jsonscan.ErrTooLarge,
		"123456789012345678901": jsonscan.ErrTooLarge,
	} {
		if got, err := jsonscan.Integer(number); got != "" || !errors.Is(err, want) {
			t.Errorf("%s: %q, %v, want %v", number, got, err, want)
		}
	}
}

// Integer agrees with exact arithmetic.
func FuzzInteger(f *testing.F) {
	for _, text := range []string{"0", "1e3", "-1.50e1", "100e-2", "1e-2", "1e21", "0.00000000000000000001e20"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, number string) {
		end, _, ok := jsonscan.Value([]byte(number), 0)
		if !ok || end != len(number) || number[0] > '9' || len(number) > 100 {
			return
		}
		exact, ok := new(big.Rat).SetString(number)
		if number[0] == '"' || !ok || exact.Num().BitLen() > 1<<16 {
			return // big.Rat refuses large exponents
		}
		got, err := jsonscan.Integer(number)
		switch {
		case !exact.IsInt():
			if !errors.Is(err, jsonscan.ErrFraction) {
				t.Errorf("%s: %q, %v", number, got, err)
			}
		case len(strings.TrimPrefix(exact.Num().String(), "-")) > 20:
			if !errors.Is(err, jsonscan.ErrTooLarge) {
				t.Errorf("%s: %q, %v", number, got, err)
			}
		case got != exact.Num().String() || err != nil:
			t.Errorf("%s: %q, %v, want %s", number, got, err, exact.Num())
		}
	})
}
