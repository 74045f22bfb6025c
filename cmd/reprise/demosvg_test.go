package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"reprise/internal/termsvg"
	"reprise/internal/testserver"
)

// demoPicture is the picture that the README begins with.
const demoPicture = "../../docs/demo.svg"

// cutMark ends the line of a connection that was cut.
const cutMark = "× cut"

// maxDemoPicture bounds the bytes of it.
const maxDemoPicture = 100 << 10

// TestDemoPicture: the picture in docs/ shows what "reprise demo" draws on a terminal. With -update it is recorded
// anew.
func TestDemoPicture(t *testing.T) {
	args, rows := []string{"demo", "--lines", "20", "--pace", "20ms", "--every", "100ms"}, 200
	if *update {
		args, rows = []string{"demo"}, 23
	}
	picture := termsvg.Draw(recordDemo(t, args, rows), &termsvg.Options{
		Cols: 80, Rows: rows, Hold: 5 * time.Second,
		Title: "reprise demo: a job is followed over connections that are cut every second, and each line comes once",
	})
	if *update {
		check(t, os.WriteFile(demoPicture, picture, 0o644))
	}
	kept, err := os.ReadFile(demoPicture)
	check(t, err)
	if len(kept) > maxDemoPicture {
		t.Errorf("%d bytes, want at most %d", len(kept), maxDemoPicture)
	}
	want, got := lastScreen(t, picture), lastScreen(t, kept)
	if !slices.Equal(withoutCuts(got), withoutCuts(want)) {
		t.Errorf("docs/demo.svg ends with\n%s\nand the demo with\n%s\n-update records it anew",
			strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, line := range []string{"connection N N ● N " + cutMark, "✓ each line once, in order, none missing"} {
		if !slices.Contains(got, line) {
			t.Errorf("it ends with %q, which has no %q", got, line)
		}
	}
}

// withoutCuts leaves out the connections that were cut: on a busy machine the job may have ended before the first cut.
func withoutCuts(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasSuffix(line, cutMark) })
}

// recordDemo returns what a demo writes to a terminal, after a prompt at which it is typed.
func recordDemo(t *testing.T, args []string, rows int) []termsvg.Frame {
	t.Helper()
	frames := []termsvg.Frame{{Data: []byte("$ ")}}
	typed := 500 * time.Millisecond
	for _, key := range "reprise demo\r\n" {
		frames = append(frames, termsvg.Frame{At: typed, Data: []byte(string(key))})
		typed += 50 * time.Millisecond
	}
	for _, frame := range onTerminal(t, rows, []string{"TMPDIR=" + t.TempDir()}, args...) {
		frame.At += typed
		frames = append(frames, frame)
	}
	return frames
}

// onTerminal runs reprise in a terminal of 80 columns to its end, with variables besides ours, and returns what it
// writes.
func onTerminal(t *testing.T, rows int, env []string, args ...string) (frames []termsvg.Frame) {
	t.Helper()
	program, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Args = append([]string{"reprise"}, args...)
	cmd.Env = append(os.Environ(), append([]string{"TERM=xterm-256color", "NO_COLOR=", "CLICOLOR_FORCE="}, env...)...)
	master, slave, err := pty.Open()
	check(t, err)
	defer master.Close()
	check(t, pty.Setsize(master, &pty.Winsize{Cols: 80, Rows: uint16(rows)}))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	testserver.EndWithParent(cmd.SysProcAttr)
	begun := time.Now()
	err = cmd.Start()
	check(t, errors.Join(err, slave.Close()))
	for buf := make([]byte, 32<<10); ; {
		n, err := master.Read(buf)
		if n > 0 {
			frames = append(frames, termsvg.Frame{At: time.Since(begun), Data: bytes.Clone(buf[:n])})
		}
		if err != nil { // nobody has the terminal any more
			break
		}
	}
	if err := cmd.Wait(); err != nil && len(frames) == 0 {
		t.Fatal(err)
	}
	return frames
}

// lastScreen returns the lines of the last screen of a picture, in their order, without numbers. Lines that are alike
// count once. It fails the test if the picture is no XML, or has a script or something from elsewhere.
func lastScreen(t *testing.T, picture []byte) []string {
	t.Helper()
	rows := map[string]string{}
	var order []string
	last, row := false, ""
	decoder := xml.NewDecoder(bytes.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			row = ""
			for _, attr := range token.Attr {
				switch {
				case token.Name.Local == "g" && attr.Name.Local == "class":
					last = strings.HasSuffix(attr.Value, " last")
				case token.Name.Local == "text" && attr.Name.Local == "y":
					row = attr.Value
				}
				if strings.HasPrefix(attr.Name.Local, "on") || attr.Name.Local == "href" {
					t.Errorf("the picture has %s=%q", attr.Name.Local, attr.Value)
				}
			}
			if !slices.Contains([]string{"svg", "title", "style", "rect", "g", "text"}, token.Name.Local) {
				t.Errorf("the picture has an element %s", token.Name.Local)
			}
		case xml.CharData:
			if last && row != "" {
				if rows[row] == "" {
					order = append(order, row)
				}
				rows[row] += string(token) + " "
			}
		case xml.EndElement:
			row = ""
		}
	}
	return structure(rows, order)
}

var (
	numbers = regexp.MustCompile(`[0-9.]+m?s?`)
	marks   = regexp.MustCompile(`●+…?`)
)

// structure returns the rows without what differs from run to run.
func structure(rows map[string]string, order []string) []string {
	slices.SortFunc(order, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	var lines []string
	for _, y := range order {
		line := marks.ReplaceAllString(numbers.ReplaceAllString(rows[y], "N"), "●")
		line = strings.Join(strings.Fields(line), " ") // a column may be one narrower
		// A connection may be cut before it has brought anything.
		empty := strings.HasSuffix(line, cutMark) && !strings.Contains(line, "●")
		if !empty && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}
