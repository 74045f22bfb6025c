package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"reprise"
	"reprise/internal/execution"
)

// transcript is output in the form for a model: both channels in order, with a line at each change of the channel,
// without escape sequences, and legible.
type transcript struct {
	clip   *clip
	stdout voice
	stderr voice
	on     string // the channel of the last output
	ends   byte   // the last byte
}

// voice is a channel of a transcript.
type voice struct {
	plain   plainer
	legible legible
	size    int // bytes of the newest event
	binary  int // bytes of output that is not text and has not been mentioned
	at      uint64
}

// newTranscript returns a transcript that keeps at most limit bytes, of the beginning and of the end.
func newTranscript(limit int) *transcript { return &transcript{clip: newClip(limit)} }

// of returns a channel, or nil for events without output.
func (t *transcript) of(channel string) *voice {
	switch channel {
	case execution.Stdout:
		return &t.stdout
	case execution.Stderr:
		return &t.stderr
	}
	return nil
}

// plain returns the channel of an event and its output without escape sequences, or "" for an event without output.
func (t *transcript) plain(e *reprise.Event) (channel string, text []byte) {
	channel, data := said(e)
	v := t.of(channel)
	if v == nil {
		return "", nil
	}
	v.size = len(data)
	return channel, v.plain.plain(data)
}

// add adds output of the event seq.
func (t *transcript) add(channel string, seq uint64, data []byte) {
	v := t.of(channel)
	if v == nil || len(data) == 0 {
		return
	}
	if channel != t.on {
		t.turnTo(channel, seq)
	}
	if isBinary(slices.Concat(v.legible.rest, data)) {
		v.legible.flush(t.emit)
		if v.binary == 0 {
			v.at = seq
		}
		v.binary += v.size
		return
	}
	t.mention(v)
	v.legible.take(seq, data, t.emit)
}

// turnTo ends the output of the other channel, and begins the output of channel.
func (t *transcript) turnTo(channel string, seq uint64) {
	t.finish()
	if t.on != "" || channel == execution.Stderr {
		t.endLine(seq)
		t.emit(seq, fmt.Appendf(nil, "[%s]\n", channel))
	}
	t.on = channel
}

// finish adds what is known of the last channel.
func (t *transcript) finish() {
	if v := t.of(t.on); v != nil {
		v.legible.flush(t.emit)
		t.mention(v)
	}
}

// mention adds a line for output that is not text.
func (t *transcript) mention(v *voice) {
	if v.binary == 0 {
		return
	}
	t.endLine(v.at)
	t.emit(v.at, fmt.Appendf(nil, "[%d bytes of %s that are no text; with events they are read]\n", v.binary, t.on))
	v.binary = 0
}

// endLine ends a line of the transcript.
func (t *transcript) endLine(seq uint64) {
	if t.ends != 0 && t.ends != '\n' {
		t.emit(seq, []byte{'\n'})
	}
}

func (t *transcript) emit(seq uint64, text []byte) {
	t.clip.add(seq, text)
	t.ends = text[len(text)-1]
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
			t.plain(&e)
		}
	}
}

// text returns the transcript with a line break at its end, and the number of omitted bytes.
func (t *transcript) text(limit int, earliest uint64, note func(omission) string) (string, shown) {
	t.finish()
	s := t.clip.show(limit, earliest, note)
	if s.text != "" && !strings.HasSuffix(s.text, "\n") {
		s.text += "\n"
	}
	return s.text, s
}
