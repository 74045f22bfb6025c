package mcpserver

import (
	"context"
	"fmt"
	"strings"

	"reprise"
	"reprise/internal/execution"
)

// transcript is output in the form for a model: both channels in order, with a line at each change of the channel, and
// without escape sequences.
type transcript struct {
	clip   *clip
	stdout plainer
	stderr plainer
	on     string // the channel of the last output
	ends   byte   // the last byte
}

// newTranscript returns a transcript that keeps at most limit bytes, of the beginning and of the end.
func newTranscript(limit int) *transcript { return &transcript{clip: newClip(limit)} }

// of returns the plainer of a channel, or nil for events without output.
func (t *transcript) of(channel string) *plainer {
	switch channel {
	case execution.Stdout:
		return &t.stdout
	case execution.Stderr:
		return &t.stderr
	}
	return nil
}

// add adds an event and returns its text for a model.
func (t *transcript) add(e *reprise.Event) []byte {
	channel, data := said(e)
	p := t.of(channel)
	if p == nil {
		return nil
	}
	shown := p.plain(data)
	if !isText(shown) {
		shown = fmt.Appendf(nil, "[%d bytes of %s that are no text]", len(data), channel)
	}
	if len(shown) == 0 {
		return nil
	}
	var piece []byte
	if channel != t.on && (t.on != "" || channel == execution.Stderr) {
		if t.on != "" && t.ends != '\n' {
			piece = append(piece, '\n')
		}
		piece = fmt.Appendf(piece, "[%s]\n", channel)
	}
	t.on, t.ends = channel, shown[len(shown)-1]
	t.clip.add(e.Seq, append(piece, shown...))
	return shown
}

// primed is the number of events before a cursor that are read to find out whether the cursor is inside an escape
// sequence.
const primed = 8

// prime brings the plainers into the state that they have at a position: a sequence may have begun before it. What
// cannot be read is left out.
func (t *transcript) prime(ctx context.Context, stream *reprise.Stream, at reprise.Cursor) {
	if at.Seq == 0 {
		return
	}
	from := reprise.Earliest()
	if at.Seq > primed {
		from = reprise.After(stream.Cursor(at.Seq - primed))
	}
	reader, err := stream.Reader(ctx, from)
	if err != nil {
		return
	}
	defer reader.Close()
	for {
		events, err := reader.Poll(ctx)
		if err != nil || events.Len() == 0 {
			return
		}
		for e := range events.All() {
			if e.Seq > at.Seq {
				return
			}
			if p := t.of(e.Type); p != nil {
				p.plain(e.Data)
			}
		}
	}
}

// text returns the transcript with a line break at its end, and the number of omitted bytes.
func (t *transcript) text(limit int, note func(omitted int64, after uint64) string) (string, shown) {
	s := t.clip.show(limit, note)
	if s.text != "" && !strings.HasSuffix(s.text, "\n") {
		s.text += "\n"
	}
	return s.text, s
}
