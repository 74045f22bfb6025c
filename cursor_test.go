package reprise_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"reprise"
)

const (
	epochText = "7ZK3M9Q2VTX4WB8A"
	tagText   = "0F3KQ6T2M9YVC"
)

func TestCursorText(t *testing.T) {
	for _, seq := range []uint64{0, 1, 9, 10, 42, math.MaxInt64, math.MaxUint64} {
		c := reprise.Cursor{Seq: seq, Epoch: epochText, Tag: tagText}
		want := strconv.FormatUint(seq, 10) + "." + epochText + "." + tagText
		if got := c.String(); got != want || len(got) > 51 {
			t.Errorf("String: %q, want %q", got, want)
		}
		if got, err := reprise.ParseCursor(want); err != nil || got != c {
			t.Errorf("ParseCursor(%q): %v, %v", want, got, err)
		}
	}
	if s := (reprise.Cursor{}).String(); s != "" {
		t.Errorf("the zero cursor is %q", s)
	}
}

func TestParseCursorRefuses(t *testing.T) {
	const rest = "." + epochText + "." + tagText
	malformed := []string{
		"", "0", "7", ".", "..", "tail", rest, "-1" + rest, "+1" + rest, " 1" + rest, "1" + rest + " ",
		"01" + rest, "00" + rest, "1x" + rest, "0x1" + rest, "1e3" + rest, "1_0" + rest, "١" + rest,
		"18446744073709551616" + rest, "99999999999999999999" + rest, "100000000000000000000" + rest,
		"1" + rest + "0", "1" + rest[:len(rest)-1], "1" + rest + "\n", "1" + rest + "\x00",
		"1" + strings.ToLower(rest), "1." + epochText[1:] + "." + tagText, "1." + epochText + "0." + tagText[1:],
		"1." + epochText + "-" + tagText, "1-" + epochText + "." + tagText,
		"1." + strings.Replace(epochText, "7", "I", 1) + "." + tagText,
		"1." + strings.Replace(epochText, "7", "L", 1) + "." + tagText,
		"1." + epochText + "." + strings.Replace(tagText, "F", "O", 1),
		"1." + epochText + "." + strings.Replace(tagText, "F", "U", 1),
		strings.Repeat("1", 100_000) + rest, strings.Repeat("1", 100_000), strings.Repeat(".", 100_000),
		"1" + rest + strings.Repeat("0", 100_000),
	}
	for _, s := range malformed {
		if c, err := reprise.ParseCursor(s); !errors.Is(err, reprise.ErrCursorMalformed) || !c.IsZero() {
			t.Errorf("ParseCursor(%.80q): %v, %v", s, c, err)
		}
	}
}

func TestParsePosition(t *testing.T) {
	cursor := reprise.Cursor{Seq: 7, Epoch: epochText, Tag: tagText}
	for s, want := range map[string]reprise.Position{
		"": reprise.Earliest(), "0": reprise.Earliest(), "earliest": reprise.Earliest(),
		"tail": reprise.Tail(), cursor.String(): reprise.After(cursor),
	} {
		if got, err := reprise.ParsePosition(s); err != nil || got != want {
			t.Errorf("ParsePosition(%q): %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"Tail", "EARLIEST", "00", "1", " tail", "tail "} {
		_, err := reprise.ParsePosition(s)
		wantError(t, err, reprise.ErrCursorMalformed)
	}
}

func TestEpochsDiffer(t *testing.T) {
	seen := map[reprise.Epoch]bool{}
	for range 1000 {
		epoch := reprise.NewEpoch()
		if len(epoch) != 16 || seen[epoch] {
			t.Fatalf("epoch %q: %d bytes, seen before: %v", epoch, len(epoch), seen[epoch])
		}
		seen[epoch] = true
	}
}

func TestCursorParsingDoesNotAllocate(t *testing.T) {
	s := reprise.Cursor{Seq: 123456, Epoch: epochText, Tag: tagText}.String()
	long := strings.Repeat("9", 100_000)
	allocs := testing.AllocsPerRun(100, func() {
		_, err := reprise.ParseCursor(s)
		_, refused := reprise.ParseCursor(long)
		if err != nil || refused == nil {
			t.Error(err, refused)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestCursorRefusals: what is not a position of this life of this stream is refused, each for its reason.
func TestCursorRefusals(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{MaxEvents: 5})
	other := create(t, log, "other", reprise.Retention{MaxEvents: 5})
	add(t, s, numbered(1, 10)...)
	add(t, other, numbered(1, 10)...)

	refuse := func(c reprise.Cursor) error {
		t.Helper()
		r, err := s.Reader(t.Context(), reprise.After(c))
		if err == nil {
			check(t, r.Close())
			t.Fatalf("cursor %v was taken", c)
		}
		return err
	}
	wantError(t, refuse(other.Cursor(7)), reprise.ErrCursorForeign)

	good := s.Cursor(7)
	for i := range good.Tag {
		forged := good
		digit := "0"
		if good.Tag[i] == '0' {
			digit = "1"
		}
		forged.Tag = good.Tag[:i] + digit + good.Tag[i+1:]
		wantError(t, refuse(forged), reprise.ErrCursorForeign)
	}
	madeUp := good
	madeUp.Epoch = epochText
	wantError(t, refuse(madeUp), reprise.ErrCursorForeign)

	windowError(t, refuse(s.Cursor(4)), reprise.CursorExpired)
	windowError(t, refuse(s.Cursor(11)), reprise.CursorAhead)
	windowError(t, refuse(s.Cursor(math.MaxUint64)), reprise.CursorAhead)
	for _, seq := range []uint64{5, 10} {
		check(t, openReader(t, s, reprise.After(s.Cursor(seq))).Close())
	}

	check(t, log.Remove(t.Context(), named("s")))
	s = create(t, log, "s", reprise.Retention{})
	add(t, s, numbered(1, 3)...)
	refused := windowError(t, refuse(good), reprise.EpochChanged)
	if refused.Earliest != s.Cursor(0) || refused.Tail != s.Cursor(3) || refused.Missed() != 0 {
		t.Errorf("the window of the new epoch is told as %v to %v", refused.Earliest, refused.Tail)
	}
	forged := good
	forged.Tag = other.Cursor(0).Tag
	wantError(t, refuse(forged), reprise.ErrCursorForeign)
}

// FuzzParseCursor: what parses prints as it was, and what prints parses to the same.
func FuzzParseCursor(f *testing.F) {
	f.Add("7." + epochText + "." + tagText)
	f.Add("18446744073709551615." + epochText + "." + tagText)
	f.Add("018446744073709551615." + epochText + "." + tagText)
	f.Fuzz(func(t *testing.T, s string) {
		c, err := reprise.ParseCursor(s)
		if err != nil {
			if !errors.Is(err, reprise.ErrCursorMalformed) || !c.IsZero() {
				t.Fatalf("ParseCursor(%q): %v, %v", s, c, err)
			}
			return
		}
		if c.String() != s {
			t.Fatalf("%q is printed as %q", s, c)
		}
		if _, err := reprise.ParsePosition(s); err != nil {
			t.Fatalf("ParsePosition(%q): %v", s, err)
		}
	})
}
