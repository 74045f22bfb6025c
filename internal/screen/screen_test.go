package screen_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"reprise/internal/screen"
)

// draw returns a screen of 20 by 5 on which a program has drawn.
func draw(text string) *screen.Screen {
	s := screen.New(20, 5)
	_, _ = s.Write([]byte(text))
	return s
}

func TestScreenShowsWhatWasDrawn(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"text":                  {"one\r\ntwo", "one\ntwo"},
		"newline alone":         {"one\ntwo", "one\n   two"},
		"wrap":                  {strings.Repeat("x", 20) + "y", strings.Repeat("x", 20) + "\ny"},
		"wrap is put off":       {strings.Repeat("x", 20) + "\r\ny", strings.Repeat("x", 20) + "\ny"},
		"no wrap":               {"\x1b[?7l" + strings.Repeat("x", 20) + "yz", strings.Repeat("x", 19) + "z"},
		"scroll":                {"1\r\n2\r\n3\r\n4\r\n5\r\n6", "2\n3\n4\n5\n6"},
		"backspace":             {"abc\b\bX", "aXc"},
		"tab":                   {"a\tb\x1b[Zc", "a       c"},
		"address":               {"\x1b[2;3Hx\x1b[Hy", "y\n  x"},
		"relative":              {"\x1b[2B\x1b[3Cx\x1b[A\x1b[2Dy", "\n  y\n   x"},
		"erase line":            {"abcdef\x1b[3D\x1b[K", "abc"},
		"erase to cursor":       {"abcdef\x1b[4D\x1b[1K", "   def"},
		"erase below":           {"1\r\n2\r\n3\x1b[2;1H\x1b[J", "1"},
		"erase above":           {"1\r\n2\r\n3\x1b[2;1H\x1b[1J", "\n\n3"},
		"erase all":             {"1\r\n2\x1b[2J3", "\n 3"},
		"insert characters":     {"abc\x1b[2D\x1b[2@", "a  bc"},
		"delete characters":     {"abcd\x1b[3D\x1b[2P", "ad"},
		"erase characters":      {"abcd\x1b[3D\x1b[2X", "a  d"},
		"insert mode":           {"abc\x1b[3D\x1b[4hX\x1b[4lY", "XYbc"},
		"insert lines":          {"1\r\n2\r\n3\x1b[2;1H\x1b[L", "1\n\n2\n3"},
		"delete lines":          {"1\r\n2\r\n3\x1b[2;1H\x1b[M", "1\n3"},
		"region":                {"1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[4;1H\n", "1\n3\n4\n\n5"},
		"region, up":            {"1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[2;1H\x1bM", "1\n\n2\n3\n5"},
		"origin":                {"\x1b[2;4r\x1b[?6h\x1b[1;1Hx\x1b[9;1Hy", "\nx\n\ny"},
		"scroll by":             {"1\r\n2\r\n3\x1b[S", "2\n3"},
		"scroll back":           {"1\r\n2\x1b[T", "\n1\n2"},
		"repeat":                {"a\x1b[3b", "aaaa"},
		"cursor saved":          {"ab\x1b7\x1b[3;3Hc\x1b8d", "abd\n\n  c"},
		"alternate":             {"main\x1b[?1049h\x1b[Halt", "alt"},
		"and back":              {"main\x1b[?1049h\x1b[Halt\x1b[?1049l!", "main!"},
		"utf-8":                 {"æøå €", "æøå €"},
		"wide":                  {"日本\b\bx", "日x"},
		"wide is covered":       {"日\x1b[2Gx", " x"},
		"wide at the border":    {"\x1b[20G日", "\n日"},
		"combining":             {"e\u0301x", "e\u0301x"},
		"combining at the edge": {"\x1b[20Ge\u0301x", strings.Repeat(" ", 19) + "e\u0301\nx"},
		"no utf-8":              {"a\xffb\xe2\x82c", "a\ufffdb\ufffdc"},
		"line drawing":          {"\x1b(0lqk\x1b(Blqk", "┌─┐lqk"},
		"shifted":               {"\x1b)0q\x0eq\x0fq", "q─q"},
		"title":                 {"a\x1b]0;title\ab\x1b]2;other\x1b\\c", "abc"},
		"strings":               {"a\x1bPq#0;\a1\x1b\\b\x1b_kitty\x1b\\c", "abc"},
		"string given up":       {"a\x1b]0;x\x1b[2Cb", "a  b"},
		"question":              {"a\x1b[6n\x1b[c\x1b[?1$pb", "ab"},
		"too many parameters":   {"a\x1b[" + strings.Repeat("1;", 100) + "mb", "ab"},
		"huge":                  {"a\x1b[99999999999999;99999999999999Hb", "a\n\n\n\n" + strings.Repeat(" ", 19) + "b"},
		"huge counts": {
			"a\x1b[99999@\x1b[99999P\x1b[99999X\x1b[99999L\x1b[99999M\x1b[99999S\x1b[99999T\x1b[99999Zb", "b",
		},
		"cut off":               {"a\x1b[31", "a"},
		"control in a sequence": {"a\x1b[3\r1mb", "b"},
		"reset":                 {"a\x1b[?1049h\x1b[2;3r\x1bcb", "b"},
		"alignment":             {"\x1b#8\x1b[2;1H\x1b[J", strings.Repeat("E", 20)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := draw(c.text).Text(); got != c.want {
				t.Errorf("%q shows\n%s\nwant\n%s", c.text, got, c.want)
			}
			s := screen.New(20, 5)
			for i := range len(c.text) {
				_, _ = s.Write([]byte(c.text)[i : i+1])
			}
			if got := s.Text(); got != c.want {
				t.Errorf("%q, byte by byte, shows\n%s\nwant\n%s", c.text, got, c.want)
			}
		})
	}
}

// TestPaintIsTheSameScreen draws screens again on others, which have drawn something else before.
func TestPaintIsTheSameScreen(t *testing.T) {
	others := []string{"", "other\x1b[?1049h\x1b[2;3r\x1b[?7l\x1b[4h\x1b[?25l\x1b(0\x1b[1;44mx"}
	for _, text := range []string{
		"plain\r\ntext", "\x1b[1;31mred\x1b[0m \x1b[4:3;58:2::1:2:3mcurly\x1b[0m \x1b[38;5;200mpink\x1b[48;2;1;2;3m!",
		"main\x1b[3;4H\x1b[?1049h\x1b[Halt\x1b[?25l\x1b[?1000;1006;2004;1h\x1b=\x1b[4 q", strings.Repeat("x", 20),
		"\x1b[2;4r\x1b[?6h\x1b[2;2Hx", "\x1b[3g\x1b[5G\x1bHx", "a\x1b7\x1b[3;3Hb", "\x1b]2;title\a\x1b[>5u\x1b[>4;2m",
		"日本語 e\u0301",
		"\x1b(0q\x1b[41m\x1b[K", "\x1b[4h\x1b[?7l" + strings.Repeat("y", 20), "\x1b[20h\x1b[?5h",
		"\x1b[?1049h\x1b[2;3Hx\x1b7\x1b[4;4H",
	} {
		for _, other := range others {
			s, again := draw(text), draw(other)
			_, _ = again.Write(s.Paint())
			same := s.Text() == again.Text() && s.Alternate() == again.Alternate()
			if !same || !bytes.Equal(s.Paint(), again.Paint()) {
				t.Errorf("%q over %q:\n%q\nwant\n%q", text, other, again.Paint(), s.Paint())
			}
			// A notice on the first row goes without a trace.
			_, _ = again.Write([]byte("\x1b[?6l\x1b[H\x1b[0;7mnotice\x1b[0m\x1b[K"))
			_, _ = again.Write(s.PaintCursor(s.PaintRow(nil, 0)))
			if !bytes.Equal(s.Paint(), again.Paint()) {
				t.Errorf("%q, after a notice:\n%q\nwant\n%q", text, again.Paint(), s.Paint())
			}
		}
	}
}

// TestLeaveGivesTheTerminalBack: after Leave nothing of the program is left but what it has printed.
func TestLeaveGivesTheTerminalBack(t *testing.T) {
	for _, text := range []string{
		"", "x\x1b[?1049h\x1b[?25l\x1b[?1000;1002;1006;2004;1h\x1b=\x1b[4 q\x1b[>5u\x1b[>4;2m\x1b[1;41m",
		"x\x1b[2;4r\x1b[?6h\x1b[?7l\x1b[4h\x1b[20h\x1b(0",
	} {
		s := draw(text)
		_, _ = s.Write(s.Leave())
		if left := s.Leave(); len(left) > 0 || s.Alternate() {
			t.Errorf("%q leaves %q", text, left)
		}
	}
}

func TestResizeKeepsWhatIsNearTheCursor(t *testing.T) {
	s := draw("1\r\n2\r\n3\r\n4\r\n5 of many")
	s.Resize(6, 3)
	if got := s.Text(); got != "3\n4\n5 of m" {
		t.Errorf("smaller: %q", got)
	}
	s.Resize(30, 10)
	_, _ = s.Write([]byte("\r\nnew"))
	if got := s.Text(); got != "3\n4\n5 of m\nnew" {
		t.Errorf("larger: %q", got)
	}
	s = draw("main\x1b[?1049h\x1b[5;1Hlow")
	s.Resize(10, 2)
	_, _ = s.Write([]byte("\x1b[?1049l!"))
	if got := s.Text(); got != "main!" {
		t.Errorf("main screen: %q", got)
	}
	s.Resize(1<<30, -1)
	if cols, rows := s.Size(); cols != screen.MaxCols || rows != 1 {
		t.Errorf("%d by %d", cols, rows)
	}
}

// TestCapabilitiesOfTerminfo draws with what terminfo says of xterm-256color, as programs do.
func TestCapabilitiesOfTerminfo(t *testing.T) {
	tput := func(args ...string) string {
		cmd := exec.Command("tput", args...)
		cmd.Env = append(os.Environ(), "TERM=xterm-256color")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("tput %q: %v", args, err)
		}
		return string(out)
	}
	s := draw("main" + tput("smcup") + tput("home") + tput("setaf", "200") + "alt" + tput("sgr0") +
		tput("cup", "2", "3") + "x" +
		tput("csr", "1", "3") + tput("cup", "3", "0") + tput("ind") + tput("smacs") + "q" +
		tput("rmacs") + tput("civis"))
	if got := s.Text(); got != "alt\n   x\n\n─" {
		t.Errorf("%q", got)
	}
	_, _ = s.Write([]byte(tput("rmcup") + tput("cnorm") + tput("csr", "0", "4")))
	if got := s.Text(); got != "main" {
		t.Errorf("%q", got)
	}
}

// FuzzPaint: whatever a program writes, nothing panics, and what was drawn again is the same.
func FuzzPaint(f *testing.F) {
	f.Add([]byte("a\x1b[?1049h\x1b[31mb\x1b[2;3r\x1b[?6h日\x1b[20Gx\x1b]0;t\a\x1b(0q\x1b7\x1b[4h"), uint8(20), uint8(5))
	f.Add([]byte("\x1b[38;5;1m\x1b[48:2::1:2:3mx\x1b[3g\x1bH\x1b[99b"), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, cols, rows uint8) {
		s := screen.New(int(cols%40), int(rows%20))
		_, _ = s.Write(data[:len(data)/2])
		s.Resize(int(rows%40), int(cols%20))
		_, _ = s.Write(data[len(data)/2:])
		painted := s.Paint()
		if !utf8.Valid(painted) {
			t.Errorf("no UTF-8: %q", painted)
		}
		again := screen.New(s.Size())
		_, _ = again.Write(painted)
		if got := again.Paint(); !bytes.Equal(got, painted) {
			t.Errorf("painted again:\n%q\nwant\n%q", got, painted)
		}
		_, _ = s.Write(append([]byte("\x18"), s.Leave()...))
		if left := s.Leave(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	for name, text := range map[string]string{
		"lines": strings.Repeat(
			"a line of output as a build prints it, some eighty characters long, no more\r\n", 1000,
		),
		"colours": strings.Repeat(
			"\x1b[38;5;200mred\x1b[0m \x1b[3;4Hplaced\x1b[K and \x1b[1mbold\x1b[22m text\r\n", 1000,
		),
	} {
		b.Run(name, func(b *testing.B) {
			s := screen.New(120, 40)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = s.Write([]byte(text))
			}
		})
	}
}

// TestWorkOfSequences: what costs more than its bytes is counted.
func TestWorkOfSequences(t *testing.T) {
	const cols, rows = 200, 50
	for text, least := range map[string]int64{
		"\x1bc": 2 * cols * rows, "\x1b#8": cols * rows, "\x1b[2J": cols * rows, "\x1b[?1049h": cols * rows,
		"\x1b[50S": cols * rows, "\x1b[50T": cols * rows, "\x1b[L": cols, "\x1b[P": cols, "\x1b[50H\n": cols,
		"\x1b[3g\t": cols - 1, "\x1b[4hx": cols, "abc": 3,
	} {
		s := screen.New(cols, rows)
		if _, err := s.Write([]byte(text)); err != nil || s.Work() < least || s.Work() > least+cols+rows+20 {
			t.Errorf("%q: work %d, want about %d", text, s.Work(), least)
		}
	}
	s := screen.New(cols, rows)
	reset := []byte("\x1bc")
	if n := testing.AllocsPerRun(10, func() { _, _ = s.Write(reset) }); n > rows {
		t.Errorf("a reset makes %v allocations", n)
	}
}
