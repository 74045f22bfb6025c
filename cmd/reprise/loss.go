package main

import (
	"errors"
	"fmt"

	"reprise/client"
)

// loss counts events that are missing in the output, or were printed and no longer exist.
type loss struct {
	gaps, missed, takenBack uint64
	unknown                 bool // some gap has no number
}

// note counts an event.
func (l *loss) note(e client.Event) {
	if e.Gap == nil {
		return
	}
	l.gaps++
	l.missed += e.Gap.Missed
	l.takenBack += e.Gap.TakenBack
	l.unknown = l.unknown || e.Gap.Missed == 0 && e.Gap.TakenBack == 0
}

// outcome returns end, the error for the end of the stream, or a failure of our own if events were lost: the exit code
// of a command must then not vouch for its output.
func (l *loss) outcome(end error, advice string) error {
	ended, ok := errors.AsType[*exit](end)
	if l.gaps == 0 || end != nil && !ok {
		return end
	}
	text := fmt.Sprintf("%d events were lost", l.missed)
	if l.unknown && l.missed == 0 {
		text = "events were lost, how many is not known"
	} else if l.unknown {
		text = fmt.Sprintf("at least %d events were lost", l.missed)
	}
	if l.takenBack > 0 {
		text += fmt.Sprintf(", and %d that the server had before are taken back", l.takenBack)
	}
	if ok {
		text += fmt.Sprintf("; without that the exit code is %d", ended.code)
		if ended.err != nil {
			text += fmt.Sprintf(" (%v)", ended.err)
		}
	}
	return &exit{code: exitOurs, err: errors.New(text + advice)}
}
