package ssehttp

import (
	"strconv"

	"reprise"
)

// encoder makes the frame of an event. It is the same for all readers, so the
// Log keeps what it makes.
type encoder struct{}

func (encoder) AppendEvent(dst []byte, e *reprise.Event, cursorSuffix string) []byte {
	dst = append(dst, "id: "...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	dst = append(dst, cursorSuffix...)
	dst = append(dst, "\nevent: "...)
	dst = append(dst, e.Type...)
	dst = append(dst, "\ndata: "...)
	dst = e.AppendJSON(dst)
	return append(dst, "\n\n"...)
}

// appendFiltered appends the frames of the events whose type is wanted. moved
// is the seq of the last event if that was left out, and otherwise 0.
func appendFiltered(dst []byte, run reprise.Run, wanted map[string]bool, suffix string) (_ []byte, moved uint64) {
	for e := range run.All() {
		moved = e.Seq
		if wanted[e.Type] {
			dst = encoder{}.AppendEvent(dst, &e, suffix)
			moved = 0
		}
	}
	return dst, moved
}
