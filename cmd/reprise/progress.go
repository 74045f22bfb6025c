package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"reprise/client"
	"reprise/internal/bytesize"
)

// quietly is the flag of verbs with long work that do not only call a server.
type quietly struct {
	Quiet bool `short:"q" help:"Print only errors: no progress and no result. --json is not affected."`
}

// sayResult prints the result of a verb for people.
func (q quietly) sayResult(format string, args ...any) error {
	if q.Quiet {
		return nil
	}
	_, err := fmt.Fprintf(stdout, format, args...)
	return err
}

// progress displays the progress of long work on a terminal.
type progress struct {
	out   io.Writer // nil if nothing is displayed
	begun time.Time
	from  int64     // amount at the beginning
	shown time.Time // time of the last update
	wrote bool
}

// progressEvery is the shortest time between two updates.
const progressEvery = 100 * time.Millisecond

// newProgress shows progress on out if that is a terminal.
func newProgress(out *os.File, quiet bool) *progress {
	if quiet || !isTerminal(out) {
		return &progress{}
	}
	return &progress{out: out}
}

// show displays done bytes of total.
func (p *progress) show(done, total int64) {
	now := time.Now()
	if p.begun.IsZero() {
		p.begun, p.from = now, done
	}
	if done < total && !p.isDue(now) {
		return
	}
	percent := 100.0
	if total > 0 {
		percent = 100 * float64(done) / float64(total)
	}
	rate := ""
	if passed := now.Sub(p.begun).Seconds(); passed > 0.5 {
		rate = fmt.Sprintf("  %v/s", bytesize.Size(float64(done-p.from)/passed))
	}
	p.write(now, fmt.Sprintf("%v of %v  %.0f %%%s", bytesize.Size(done), bytesize.Size(total), percent, rate))
}

// count displays the number of finished streams and events. all is the number of streams, 0 if it is unknown.
func (p *progress) count(done, all, events, bytes int64) {
	now := time.Now()
	if !p.isDue(now) {
		return
	}
	streams := fmt.Sprintf("%d streams", done)
	if all > 0 {
		streams = fmt.Sprintf("%d of %d streams", done, all)
	}
	p.write(now, fmt.Sprintf("%s, %d events, %v", streams, events, bytesize.Size(bytes)))
}

// isDue reports whether an update is due.
func (p *progress) isDue(now time.Time) bool {
	return p.out != nil && now.Sub(p.shown) >= progressEvery
}

// write writes the line.
func (p *progress) write(now time.Time, line string) {
	if p.out == nil {
		return
	}
	p.shown, p.wrote = now, true
	fmt.Fprintf(p.out, "\r%s\x1b[K", line)
}

// end ends the line. Ending again does nothing.
func (p *progress) end() {
	if p.wrote {
		fmt.Fprintln(p.out)
	}
	p.wrote = false
}

// tracked is a printer that shows how much of an execution's output was written to a file.
type tracked struct {
	printer
	bar         *progress
	done, total int64
}

// print implements printer.
func (t *tracked) print(e client.Event) error {
	if e.Type == "stdout" || e.Type == "stderr" {
		t.done += int64(len(e.Data))
		t.bar.show(t.done, max(t.done, t.total))
	}
	return t.printer.print(e)
}

// track returns out, with progress on stderr if stderr is a terminal that nothing else writes to and stdout is not a
// terminal. end must be called. The execution must have ended, since the amount is unknown before.
func (q bridging) track(ctx context.Context, server *client.Client, id string, out printer) (_ printer, end func()) {
	nothing := func() {}
	if q.Quiet || isTerminal(stdout) || !isTerminal(os.Stderr) {
		return out, nothing
	}
	x, err := server.Show(ctx, id)
	_, mixed := out.(*channels) // which writes to stderr too
	if err != nil || x.Status != "ended" || mixed && x.Bytes.Stderr > 0 {
		return out, nothing // errors are reported by reading
	}
	bar := newProgress(os.Stderr, false)
	return &tracked{printer: out, bar: bar, total: x.Bytes.Stdout + x.Bytes.Stderr}, bar.end
}
