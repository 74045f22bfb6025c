package interpreter

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Marks tell the frames of a run from what its code prints.
type Marks struct {
	Frame string `json:"frame"`
	End   string `json:"end"`
}

// Slicer finds runs in the output of a driver. Its results depend only on the output and not on the time, so that
// reading the output again gives the same results. Its JSON form lets another process continue.
type Slicer struct {
	// Marks are the marks of the run, or zero between two runs.
	Marks  Marks   `json:"marks"`
	Stdout channel `json:"stdout"`
	Stderr channel `json:"stderr"`
	// Code is the exit code of the run; see Over.
	Code int `json:"code"`
}

// channel is the state of one of the two channels.
type channel struct {
	// Held are bytes that are not in a piece yet: the beginning of a frame, or output between two runs.
	Held  []byte `json:"held,omitempty"`
	Ended bool   `json:"ended,omitempty"`
}

// Piece is a part of a run.
type Piece struct {
	// Type is "" for output, or "result", "display" or "exception", whose Data is a JSON object.
	Type string
	Data []byte
}

const (
	// maxFrame is the maximum length of a frame. Longer ones are output.
	maxFrame = 768 << 10
	// maxBetween is how much of the newest output between two runs is kept for the next one.
	maxBetween = 32 << 10
	// maxDigits is the maximum number of digits in the length of a frame.
	maxDigits = 6
)

// Begin begins a run. The next Feed returns the output that was held since the previous run.
func (s *Slicer) Begin(m Marks) {
	s.Marks, s.Code = m, 0
	s.Stdout.Ended, s.Stderr.Ended = false, false
}

// Over reports whether the run that Begin has begun has ended, on both channels, and ends it.
func (s *Slicer) Over() bool {
	over := s.Marks.End != "" && s.Stdout.Ended && s.Stderr.Ended
	if over {
		s.Marks = Marks{}
	}
	return over
}

// Feed takes output of a channel and returns the pieces that belong to the run. They share no memory with data.
func (s *Slicer) Feed(stderr bool, data []byte) []Piece {
	c := &s.Stdout
	if stderr {
		c = &s.Stderr
	}
	buf := append(c.Held, data...)
	c.Held = nil
	if s.Marks.End == "" || c.Ended {
		c.between(buf)
		return nil
	}
	var pieces []Piece
	begin, at := 0, 0
	output := func(end int) {
		if end > begin {
			pieces = append(pieces, Piece{Data: bytes.Clone(buf[begin:end])})
		}
	}
	for {
		next := bytes.IndexByte(buf[at:], 0)
		if next < 0 {
			output(len(buf))
			return pieces
		}
		at += next
		body, size, verdict := s.frame(buf[at:])
		switch verdict {
		case noFrame:
			at++
			continue
		case partOfFrame:
			output(at)
			c.Held = bytes.Clone(buf[at:])
			return pieces
		case endFrame:
			output(at)
			c.Ended = true
			if !stderr {
				_, code, _ := strings.Cut(string(body), " ")
				s.Code, _ = strconv.Atoi(code)
			}
			c.between(buf[at+size:])
			return pieces
		case runFrame:
			output(at)
			if p, ok := pieceOf(body); ok {
				pieces = append(pieces, p)
			}
		}
		at += size
		begin = at
	}
}

// Flush returns the held output of a run whose driver has ended.
func (s *Slicer) Flush(stderr bool) []byte {
	c := &s.Stdout
	if stderr {
		c = &s.Stderr
	}
	held := c.Held
	c.Held = nil
	return held
}

// between keeps output between two runs.
func (c *channel) between(data []byte) {
	c.Held = bytes.Clone(data[max(0, len(data)-maxBetween):])
}

type verdict int

const (
	noFrame verdict = iota
	partOfFrame
	runFrame
	endFrame
)

// frame looks for a frame at the beginning of buf, which begins with a NUL, and returns its body and its length.
func (s *Slicer) frame(buf []byte) (body []byte, size int, v verdict) {
	for mark, v := range map[string]verdict{s.Marks.Frame: runFrame, s.Marks.End: endFrame} {
		rest := buf[1:]
		if len(rest) < len(mark) {
			if strings.HasPrefix(mark, string(rest)) {
				return nil, 0, partOfFrame
			}
			continue
		}
		if string(rest[:len(mark)]) != mark {
			continue
		}
		rest = rest[len(mark):]
		digits, after, whole := bytes.Cut(rest, []byte{':'})
		if !whole && len(digits) <= maxDigits {
			return nil, 0, partOfFrame
		}
		n, err := strconv.ParseUint(string(digits[:min(len(digits), maxDigits)]), 10, 32)
		if err != nil || len(digits) > maxDigits || n > maxFrame {
			return nil, 0, noFrame
		}
		if uint64(len(after)) < n {
			return nil, 0, partOfFrame
		}
		return after[:n], len(buf) - len(after) + int(n), v
	}
	return nil, 0, noFrame
}

// pieceOf reads "<type> <JSON object>".
func pieceOf(body []byte) (Piece, bool) {
	kind, data, ok := bytes.Cut(body, []byte{' '})
	if !ok || len(data) == 0 || data[0] != '{' {
		return Piece{}, false
	}
	var line bytes.Buffer
	if json.Compact(&line, data) != nil {
		return Piece{}, false
	}
	switch p := (Piece{Type: string(kind), Data: line.Bytes()}); p.Type {
	case "result", "display", "exception":
		return p, true
	}
	return Piece{}, false
}
