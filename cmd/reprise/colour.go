package main

import (
	"io"
	"os"
	"strings"
)

// style is the style of text on a terminal: the parameters of SGR, "" for plain text.
type style string

// The styles in use. They belong to the palette that terminals let their users choose.
const (
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// palette draws text in colours, or leaves it plain.
type palette struct{ on bool }

// paletteOf returns the palette for output to w. As in other programs, a non-empty NO_COLOR disables colours, otherwise
// a CLICOLOR_FORCE other than 0 enables them, and otherwise they are used on a terminal that is not dumb.
func paletteOf(w io.Writer) palette {
	force := os.Getenv("CLICOLOR_FORCE")
	switch {
	case os.Getenv("NO_COLOR") != "":
		return palette{}
	case force != "" && force != "0":
		return palette{on: true}
	}
	return palette{on: isTerminal(w) && os.Getenv("TERM") != "dumb"}
}

// draw returns text in a style.
func (p palette) draw(s style, text string) string {
	if !p.on || s == "" || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// stateStyle returns the style of a state or an outcome.
func stateStyle(state string) style {
	word, rest, _ := strings.Cut(state, " ")
	switch word {
	case "exited":
		if rest == "0" {
			return green
		}
		return red
	case "running":
		return cyan
	case "completed", "good":
		return green
	case "queued", "cancelled", "expired", "disabled":
		return yellow
	case "signaled", "timed_out", "limit_exceeded", "failed_to_start", "lost", "failed", "revoked":
		return red
	}
	return ""
}
