package interpreter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// feed slices output in parts of n bytes, through the JSON form of the slicer each time, and renders the pieces.
func feed(t *testing.T, s *Slicer, n int, output string) string {
	t.Helper()
	var text strings.Builder
	for len(output) > 0 {
		part := output[:min(n, len(output))]
		output = output[len(part):]
		for _, p := range s.Feed(false, []byte(part)) {
			if p.Type != "" {
				fmt.Fprintf(&text, "<%s %s>", p.Type, p.Data)
				continue
			}
			text.Write(p.Data)
		}
		saved, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		*s = Slicer{}
		if err := json.Unmarshal(saved, s); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

// TestFramesAreFoundHoweverTheyAreCut: output is sliced alike in parts of any size, and only whole frames with a mark
// of the run are frames.
func TestFramesAreFoundHoweverTheyAreCut(t *testing.T) {
	m := Marks{Frame: "FRAME", End: "ENDED"}
	for name, test := range map[string]struct{ output, want, after string }{
		"plain":            {"abc\x00ENDED5:end 0", "abc", ""},
		"result":           {"a\x00FRAME15:result {\"a\": 1}b\x00ENDED5:end 0", `a<result {"a":1}>b`, ""},
		"line breaks":      {"\x00FRAME17:result {\n\"a\":\n1}\n\x00ENDED5:end 0", `<result {"a":1}>`, ""},
		"NULs":             {"\x00\x00\x00F\x00FRAM\x00EN\x00ENDED5:end 0", "\x00\x00\x00F\x00FRAM\x00EN", ""},
		"foreign mark":     {"\x00OTHER5:end 0\x00ENDED5:end 0", "\x00OTHER5:end 0", ""},
		"no length":        {"\x00FRAMEx:result {}\x00ENDED5:end 0", "\x00FRAMEx:result {}", ""},
		"too long":         {"\x00FRAME9999999:x\x00ENDED5:end 0", "\x00FRAME9999999:x", ""},
		"no JSON":          {"\x00FRAME8:result {\x00ENDED5:end 0", "", ""},
		"unknown type":     {"\x00FRAME6:end {}\x00ENDED5:end 0", "", ""},
		"what comes after": {"a\x00ENDED5:end 0later", "a", "later"},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= len(test.output); n++ {
				s := &Slicer{}
				s.Begin(m)
				if got := feed(t, s, n, test.output); got != test.want {
					t.Fatalf("in parts of %d: %q, want %q", n, got, test.want)
				}
				if s.Over() {
					t.Fatal("over although stderr has not ended")
				}
				s.Feed(true, []byte("\x00ENDED0:"))
				if !s.Over() || s.Over() {
					t.Fatal("a run is over once both channels have ended")
				}
				if got := s.Flush(false); string(got) != test.after {
					t.Fatalf("held %q, want %q", got, test.after)
				}
			}
		})
	}
}

// TestOutputBetweenRunsBelongsToTheNext: what a child prints between two runs is in the next one, the newest of it.
func TestOutputBetweenRunsBelongsToTheNext(t *testing.T) {
	s := &Slicer{}
	s.Feed(false, bytes.Repeat([]byte("x"), 2*maxBetween))
	s.Feed(false, []byte("late"))
	s.Begin(Marks{Frame: "F", End: "E"})
	pieces := s.Feed(false, []byte("\x00E5:end 7"))
	if len(pieces) != 1 || len(pieces[0].Data) != maxBetween || !bytes.HasSuffix(pieces[0].Data, []byte("late")) {
		t.Errorf("%d pieces", len(pieces))
	}
	if s.Feed(true, []byte("\x00E0:")); !s.Over() || s.Code != 7 {
		t.Errorf("code %d", s.Code)
	}
}

// FuzzSlicer: what is sliced in two parts is what is sliced in one.
func FuzzSlicer(f *testing.F) {
	f.Add([]byte("a\x00F9:result {}b\x00E5:end 0c"), 3)
	f.Fuzz(func(t *testing.T, output []byte, cut int) {
		if len(output) == 0 {
			return
		}
		cut = max(1, cut%(len(output)+1))
		var got [2]string
		for i, n := range []int{len(output), cut} {
			s := &Slicer{}
			s.Begin(Marks{Frame: "F", End: "E"})
			got[i] = feed(t, s, n, string(output)) + fmt.Sprintf("%q %v", s.Flush(false), s.Stdout.Ended)
		}
		if len(output) < maxBetween && got[0] != got[1] {
			t.Errorf("in one part %q, in parts of %d %q", got[0], cut, got[1])
		}
	})
}
