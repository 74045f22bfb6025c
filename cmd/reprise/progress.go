package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress shows on a terminal how far long work is.
type progress struct {
	out   io.Writer // nil for nobody to show it to
	begun time.Time
	from  int64     // what was there at the beginning
	shown time.Time // when the line was written last
	wrote bool
}

// progressEvery is the least time between two states of the line.
const progressEvery = 100 * time.Millisecond

// newProgress shows progress on out if that is a terminal.
func newProgress(out *os.File, quiet bool) *progress {
	if quiet || !isTerminal(out) {
		return &progress{}
	}
	return &progress{out: out}
}

// show takes note of done bytes of total.
func (p *progress) show(done, total int64) {
	now := time.Now()
	if p.begun.IsZero() {
		p.begun, p.from = now, done
	}
	if p.out == nil || done < total && now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown, p.wrote = now, true
	percent := 100.0
	if total > 0 {
		percent = 100 * float64(done) / float64(total)
	}
	rate := ""
	if passed := now.Sub(p.begun).Seconds(); passed > 0.5 {
		rate = fmt.Sprintf("  %v/s", byteCount(float64(done-p.from)/passed))
	}
	fmt.Fprintf(p.out, "\r%v of %v  %.0f %%%s\x1b[K", byteCount(done), byteCount(total), percent, rate)
}

// end ends the line. Ending again does nothing.
func (p *progress) end() {
	if p.wrote {
		fmt.Fprintln(p.out)
	}
	p.wrote = false
}
