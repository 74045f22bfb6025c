// Package termsvg renders the timed output of a program on a terminal as an animated SVG.
//
// The picture needs no script, font or other file, so it is animated wherever pages show images. It has its own
// background and is therefore legible on dark and light pages. If the reader prefers reduced motion
// (prefers-reduced-motion), it shows the last screen.
package termsvg

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"reprise/internal/screen"
)

// Frame is what was written at a time, which is counted from the beginning of the recording.
type Frame struct {
	At   time.Duration
	Data []byte
}

// Options are those of Draw.
type Options struct {
	Cols, Rows int           // of the terminal
	Title      string        // what the picture is called for those who do not see it
	Hold       time.Duration // how long the last screen is shown before the recording begins again
}

// The sizes of the picture, in pixels, and the shortest time that a screen is shown.
const (
	cellWidth  = 8.4
	cellHeight = 20
	fontSize   = 14
	padding    = 16
	least      = 40 * time.Millisecond
)

// colours are those of the 16 colours of the palette that are in use, on a dark background.
var colours = map[string]string{
	"31": "#ff7b72", "32": "#56d364", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#56d4dd",
}

// version is what a row shows for a time.
type version struct {
	row      int
	runs     []screen.Run
	from, to time.Duration
}

// Draw returns the picture of a recording whose frames are in the order of time.
func Draw(frames []Frame, opts *Options) []byte {
	versions, end := versionsOf(frames, opts)
	total := end + opts.Hold
	var b strings.Builder
	width := padding*2 + int(float64(opts.Cols)*cellWidth+0.5)
	height := padding*2 + opts.Rows*cellHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 %d %d" width="%d" height="%d">`,
		width, height, width, height)
	fmt.Fprintf(&b, "\n<title>%s</title>\n", escaped(opts.Title))
	intervals := intervalsOf(versions)
	writeStyles(&b, intervals, end, total)
	fmt.Fprintf(&b, `<rect class="t" x=".5" y=".5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	for i, interval := range intervals {
		class := "k" + strconv.Itoa(i)
		if interval.to == end {
			class += " last"
		}
		fmt.Fprintf(&b, `<g class="%s">`, class)
		for _, v := range versions {
			if v.from == interval.from && v.to == interval.to {
				writeRow(&b, v)
			}
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// versionsOf draws the frames on a screen and returns what each row has shown, without empty rows.
func versionsOf(frames []Frame, opts *Options) (versions []version, end time.Duration) {
	terminal := screen.New(opts.Cols, opts.Rows)
	now := make([]version, opts.Rows)
	for i, frame := range frames {
		_, _ = terminal.Write(frame.Data)
		if i+1 < len(frames) && frames[i+1].At-frame.At < least {
			continue // the next one is shown in its place
		}
		end = frame.At
		for y := range now {
			runs := terminal.Runs(y)
			if slices.Equal(runs, now[y].runs) {
				continue
			}
			if v := now[y]; len(v.runs) > 0 {
				v.to = frame.At
				versions = append(versions, v)
			}
			now[y] = version{row: y, runs: runs, from: frame.At}
		}
	}
	end += least
	for _, v := range now {
		if len(v.runs) > 0 {
			v.to = end
			versions = append(versions, v)
		}
	}
	return versions, end
}

// interval is a time in which something is shown.
type interval struct{ from, to time.Duration }

// intervalsOf returns the intervals of versions, each once, in the order of their beginnings.
func intervalsOf(versions []version) []interval {
	var intervals []interval
	for _, v := range versions {
		if one := (interval{v.from, v.to}); !slices.Contains(intervals, one) {
			intervals = append(intervals, one)
		}
	}
	slices.SortFunc(intervals, func(a, b interval) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	return intervals
}

// writeStyles writes the style sheet: each interval is shown at its time, the last ones to the end.
func writeStyles(b *strings.Builder, intervals []interval, end, total time.Duration) {
	fmt.Fprintf(b, "<style>\n.t{fill:#0d1117;stroke:#30363d}\n"+
		"text{font:%dpx ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"+
		"fill:#e6edf3;white-space:pre}\n.s1{font-weight:bold}.s2{fill:#9198a1}", fontSize)
	for _, code := range slices.Sorted(maps.Keys(colours)) {
		fmt.Fprintf(b, ".s%s{fill:%s}", code, colours[code])
	}
	fmt.Fprintf(b, "\ng{opacity:0;animation:%.2fs step-end infinite}\n.last{opacity:1}\n", total.Seconds())
	percent := func(t time.Duration) string {
		return strconv.FormatFloat(100*float64(t)/float64(total), 'f', 2, 64) + "%"
	}
	for i, v := range intervals {
		fmt.Fprintf(b, ".k%d{animation-name:k%d}@keyframes k%d{", i, i, i)
		if v.from > 0 {
			b.WriteString("0%{opacity:0}")
		}
		fmt.Fprintf(b, "%s{opacity:1}", percent(v.from))
		if v.to < end {
			fmt.Fprintf(b, "%s{opacity:0}", percent(v.to))
		} else {
			b.WriteString("to{opacity:1}")
		}
		b.WriteString("}\n")
	}
	b.WriteString("@media (prefers-reduced-motion:reduce){g{animation:none}}\n</style>\n")
}

// writeRow writes the text of a row. Each run is as wide as its places, whatever the font.
func writeRow(b *strings.Builder, v version) {
	for _, run := range v.runs {
		if strings.TrimSpace(run.Text) == "" {
			continue
		}
		text := strings.TrimLeft(run.Text, " ")
		column := run.Column + len(run.Text) - len(text)
		trimmed := strings.TrimRight(text, " ")
		fmt.Fprintf(b, `<text x="%s" y="%d" textLength="%s"`, pixels(padding+float64(column)*cellWidth),
			padding+v.row*cellHeight+fontSize, pixels(float64(screen.Width(trimmed))*cellWidth))
		if class := classOf(run.Style); class != "" {
			fmt.Fprintf(b, ` class="%s"`, class)
		}
		fmt.Fprintf(b, ">%s</text>", escaped(trimmed))
	}
}

// classOf returns the classes for the parameters of SGR that the style sheet knows.
func classOf(sgr string) string {
	var classes []string
	for code := range strings.SplitSeq(sgr, ";") {
		if _, known := colours[code]; known || code == "1" || code == "2" {
			classes = append(classes, "s"+code)
		}
	}
	return strings.Join(classes, " ")
}

func pixels(f float64) string { return strconv.FormatFloat(f, 'f', -1, 32) }

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
