package main

import (
	"fmt"
	"strings"
	"time"
)

// demoView displays a demonstration.
type demoView interface {
	// begin shows the addresses of the server and of the faulty network, and the time between two cuts.
	begin(server, network string, every time.Duration)
	job(command string)
	event(seq uint64, text string)
	// cut is called when a connection was cut after the event seq, resumed when another one has continued there.
	cut(seq uint64)
	resumed(seq uint64)
	// count shows the number of received events. right reports whether they are the output of the job.
	count(d *demo, lines int, right bool)
}

// newDemoView returns the view that suits stdout.
func newDemoView() demoView {
	if isTerminal(stdout) {
		return &demoStrips{palette: paletteOf(stdout), begun: time.Now()}
	}
	return &demoLines{begun: time.Now()}
}

// demoLines shows each event, cut and resume as a line.
type demoLines struct{ begun time.Time }

// say prints an event of the demonstration and its time.
func (v *demoLines) say(who, format string, args ...any) {
	fmt.Fprintf(stdout, "%5.1fs  %-8s %s\n", time.Since(v.begun).Seconds(), who, fmt.Sprintf(format, args...))
}

func (v *demoLines) begin(server, network string, every time.Duration) {
	v.say("server", "http://%s", server)
	v.say("network", "http://%s cuts every connection each %v", network, every)
}

func (v *demoLines) job(command string)            { v.say("job", "%s", command) }
func (v *demoLines) event(seq uint64, text string) { v.say("event", "%3d  %s", seq, text) }
func (v *demoLines) cut(seq uint64)                { v.say("CUT", "after event %d", seq) }
func (v *demoLines) resumed(seq uint64)            { v.say("resumed", "after event %d, where it was cut", seq) }

func (v *demoLines) count(d *demo, lines int, right bool) {
	if right {
		v.say("counted", "%d lines in %d events, each once and in order, over %d cuts and %d resumes",
			lines, d.seq, d.drops, d.resumes)
	}
}

// demoStrips shows each connection as a growing line with a mark for each event. It is for terminals of 80 columns.
type demoStrips struct {
	palette palette
	begun   time.Time

	connection  int
	first, last uint64 // events of the connection, 0 before the first
	events      int    // of the connection
	text        string // of the last event
	open        bool   // the line of the connection is not finished
}

// maxMarks is the number of marks that fit into a line.
const maxMarks = 24

func (v *demoStrips) begin(server, network string, every time.Duration) {
	fmt.Fprintf(stdout, "\n  %s  a job is followed over connections that break\n\n",
		v.palette.draw(bold, "reprise demo"))
	v.row("server", "http://"+server+", which keeps each event of the job")
	v.row("network", fmt.Sprintf("http://%s, which cuts all connections every %v", network, every))
}

// row shows a participant.
func (v *demoStrips) row(name, text string) {
	fmt.Fprintf(stdout, "  %s %s\n", v.palette.draw(dim, fmt.Sprintf("%-9s", name)), text)
}

func (v *demoStrips) job(command string) {
	v.row("job", clip(command, 66))
	v.row("client", "draws a mark for each event, between the numbers of first and last")
	fmt.Fprintln(stdout)
	v.connect()
}

// connect begins the line of another connection.
func (v *demoStrips) connect() {
	v.connection++
	v.first, v.last, v.events, v.open = 0, 0, 0, true
	v.paint("")
}

func (v *demoStrips) event(seq uint64, text string) {
	if !v.open { // it belongs to the previous connection
		v.connect()
	}
	if v.first == 0 {
		v.first = seq
	}
	v.last, v.text = seq, text
	v.events++
	v.paint("")
}

func (v *demoStrips) cut(uint64) {
	if v.open {
		v.paint(v.palette.draw(red, "× cut"))
		fmt.Fprintln(stdout)
	}
	v.open = false
}

func (v *demoStrips) resumed(uint64) {
	if !v.open {
		v.connect()
	}
}

// paint draws the line of the connection again. ending is the reason of its end, "" for the text of its last event.
func (v *demoStrips) paint(ending string) {
	p, first, last := v.palette, "", ""
	if v.first > 0 {
		first, last = fmt.Sprint(v.first), fmt.Sprint(v.last)
	}
	strip := strings.Repeat("●", min(v.events, maxMarks))
	if v.events > maxMarks {
		strip = strip[:len(strip)-len("●")] + "…"
	}
	if ending == "" && v.first > 0 {
		ending = p.draw(dim, clip(v.text, 26))
	}
	room := strings.Repeat(" ", max(0, 12-v.events))
	fmt.Fprintf(stdout, "\r  %s  %5s %s%s %-4s %s\x1b[K",
		p.draw(cyan, fmt.Sprintf("connection %2d", v.connection)), first, p.draw(green, strip), room, last, ending)
}

func (v *demoStrips) count(d *demo, lines int, right bool) {
	if v.open {
		v.paint(v.palette.draw(green, "the job has ended"))
		fmt.Fprintln(stdout)
	}
	p := v.palette
	fmt.Fprintf(stdout, "\n  the job printed  %s lines\n", p.draw(bold, fmt.Sprint(d.Lines)))
	fmt.Fprintf(stdout, "  the client got   %s lines, over %d cuts and %d resumes, in %.1fs\n",
		p.draw(bold, fmt.Sprint(lines)), d.drops, d.resumes, time.Since(v.begun).Seconds())
	if right {
		fmt.Fprintf(stdout, "\n  %s\n\n", p.draw(green, "✓ each line once, in order, none missing"))
	}
}
