package execution

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"reprise/internal/execution/supervisor"
)

// shifts are the differences between the frames of a spool and the events of the stream.
type shifts struct {
	// Cut: events or frames were lost.
	Cut bool `json:"cut,omitempty"`
	// Steps are in the order of From. Before the first step, frame n is event n.
	Steps []shiftStep `json:"steps,omitempty"`
	// Saves counts how often they were saved. Of those in a file of their own and in the brief the later ones hold.
	Saves int `json:"saves,omitempty"`
}

// shiftStep holds for a stream whose tail is From or later: the event after its tail is frame tail+1+Shift, modulo
// 2^64.
type shiftStep struct {
	From  uint64 `json:"from"`
	Shift uint64 `json:"shift"`
}

// next is the frame that becomes the event after tail.
func (s *shifts) next(tail uint64) uint64 {
	next := tail + 1
	for _, step := range s.Steps {
		if step.From <= tail {
			next = tail + 1 + step.Shift
		}
	}
	return next
}

// move notes that the event after tail will be the frame next.
func (s *shifts) move(next, tail uint64) {
	s.Steps = slices.DeleteFunc(s.Steps, func(step shiftStep) bool { return step.From >= tail })
	s.Steps = append(s.Steps, shiftStep{From: tail, Shift: next - (tail + 1)})
}

// save writes them, so that a later server finds them: into the brief if the disk is full, because only a
// server that reads the spools makes room.
func (s *shifts) save(dir string) error {
	s.Saves++
	err := supervisor.WriteFile(filepath.Join(dir, shiftFile), mustMarshal(s))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // a directory that was removed is never read again
	case errors.Is(err, syscall.ENOSPC) && s.saveInBrief(dir):
		return nil
	}
	return err
}

// blockBytes is the unit in which file systems give space to files.
const blockBytes = 4 << 10

// saveInBrief writes them into the last block of the brief, which needs no space. It reports whether they are there.
func (s *shifts) saveInBrief(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, supervisor.BriefFile))
	var b brief
	if err != nil || json.Unmarshal(text, &b) != nil || b.Run != "" && b.Run != filepath.Base(dir) {
		return false
	}
	b.Shifts = s
	if len(mustMarshal(&b)) > (len(text)+blockBytes-1)/blockBytes*blockBytes {
		return false
	}
	return b.save(dir) == nil
}

// loadShifts reads what save has written, also into the brief b.
func loadShifts(dir string, b *brief) (s shifts) {
	if text, err := os.ReadFile(filepath.Join(dir, shiftFile)); err == nil {
		_ = json.Unmarshal(text, &s)
	}
	if b.Shifts != nil && b.Shifts.Saves > s.Saves {
		return *b.Shifts
	}
	return s
}
