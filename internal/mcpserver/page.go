package mcpserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/pattern"
)

const (
	// defaultQuiet is the pause in the output that ends a wait for output. collectAtMost limits that wait once there is
	// some output. So an answer contains output that belongs together, and returns soon at a prompt.
	defaultQuiet  = 300 * time.Millisecond
	collectAtMost = 5 * time.Second
	// matchQuiet is the pause in the output that ends an answer after a match: what was written at the same moment, on
	// the other channel too, belongs to it. matchAtMost limits that wait.
	matchQuiet  = 50 * time.Millisecond
	matchAtMost = time.Second
	// windowBytes is how much output before a piece is searched for a match.
	windowBytes = 4 << 10
	// unclipped is the limit of a transcript that is bounded by events.
	unclipped = 1 << 30
)

// outputEvent is one event of a run.
type outputEvent struct {
	ID     string `json:"event_id"`
	Type   string `json:"type"`
	Time   string `json:"time"`
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"`
	Data   any    `json:"data,omitempty"`

	seq uint64
	at  time.Time
}

// page collects the events of one answer.
type page struct {
	q          *outputQuery
	watcher    *watcher
	transcript *transcript
	events     []outputEvent
	facts      outputFacts

	count  int
	room   int // bytes that the answer may still have
	widest int // bytes of the longest output
	// left is the output after a match that is not shown, and the seq after which it comes.
	left struct {
		bytes int
		after uint64
	}
	tail    uint64 // seq of the last event that was taken
	windows map[string][]byte
	unended map[string]bool // the channels whose last line has no end

	deadline time.Time
	first    time.Time // when the first output was there, zero before
	last     time.Time // when the newest was
}

func newPage(id string, q *outputQuery, w *watcher) *page {
	limit := q.maxBytes
	if q.pages {
		limit = unclipped
	}
	return &page{
		q: q, watcher: w, transcript: newTranscript(limit), events: []outputEvent{},
		facts: outputFacts{ID: id}, room: q.maxBytes, windows: map[string][]byte{}, unended: map[string]bool{},
	}
}

// open opens a reader, if necessary after lost events. It refuses a cursor of another stream or beyond the end.
func (p *page) open(ctx context.Context, stream *reprise.Stream, at reprise.Position) (*reprise.Reader, error) {
	reader, err := stream.Reader(ctx, at)
	window, ok := errors.AsType[*reprise.WindowError](err)
	if ok && window.Reason != reprise.CursorAhead {
		p.lose(window)
		reader, err = stream.Reader(ctx, reprise.After(window.Resume()))
	}
	if err != nil {
		return nil, err
	}
	if info := reader.Info(); !ok && at == reprise.Earliest() && info.Earliest > 1 {
		p.facts.Truncated = &truncatedOutput{
			Missed: info.Earliest - 1, Earliest: reader.Cursor().String(),
			Reason: reprise.CursorExpired.String(),
		}
	}
	p.moveTo(reader.Cursor())
	if p.q.form == formText || p.q.form == formSearch {
		p.transcript.prime(ctx, stream, reader.Cursor())
	}
	return reader, nil
}

func (p *page) moveTo(c reprise.Cursor) { p.facts.Cursor, p.tail = c.String(), c.Seq }

func (p *page) lose(window *reprise.WindowError) {
	missed, takenBack := window.Missed(), window.TakenBack()
	if before := p.facts.Truncated; before != nil {
		missed += before.Missed
		takenBack += before.TakenBack
	}
	p.facts.Truncated = &truncatedOutput{
		Missed: missed, TakenBack: takenBack, Earliest: window.Earliest.String(), Reason: window.Reason.String(),
	}
}

// read reads events until there are enough, the expected output has arrived, or the wait is over.
func (p *page) read(ctx context.Context, reader *reprise.Reader) error {
	p.deadline = time.Now().Add(p.q.wait)
	for {
		changed := reader.Changed()
		events, err := reader.Poll(ctx)
		if err != nil {
			if goesOn, err := p.failed(reader, err); !goesOn {
				return err
			}
			continue
		}
		if done, err := p.takeEvents(ctx, reader, events); done || err != nil {
			return err
		}
		if events.Len() > 0 {
			continue
		}
		p.watcher.tell(ctx)
		left := p.remaining(time.Now())
		if left <= 0 {
			p.facts.Matched = p.facts.Matched || p.prompted()
			return nil
		}
		if err := p.watcher.wait(ctx, changed, left); err != nil {
			return err
		}
	}
}

// failed handles an error of the reader, and reports whether reading continues. The answer contains the output so far;
// the next call reports the gap.
func (p *page) failed(reader *reprise.Reader, err error) (goesOn bool, _ error) {
	window, lost := errors.AsType[*reprise.WindowError](err)
	switch {
	case errors.Is(err, reprise.ErrEnded):
		p.ended(reader)
		return false, nil
	case p.count > 0:
		p.facts.HasMore = true
		return false, nil
	case lost:
		p.lose(window)
		err := reader.Seek(reprise.After(window.Resume()))
		if err == nil {
			p.moveTo(reader.Cursor())
		}
		return err == nil, err
	}
	return false, err
}

// takeEvents takes events and reports whether the answer is complete.
func (p *page) takeEvents(ctx context.Context, reader *reprise.Reader, events reprise.Events) (done bool, _ error) {
	for e := range events.All() {
		full := (p.q.pages || p.facts.Matched) && p.isFull(&e)
		if full || p.count > 0 && !p.q.wanted.affords(2*windowBytes+len(e.Data)) {
			p.facts.HasMore = true
			return true, nil
		}
		p.count++
		p.watcher.saw(&e)
		matched, err := p.take(ctx, reader.Stream(), &e)
		if err != nil && !errors.Is(err, pattern.ErrWork) {
			return true, err
		}
		p.moveTo(reader.Stream().Cursor(e.Seq))
		if matched {
			p.match()
		}
		if err != nil || p.left.bytes > 0 {
			p.facts.HasMore = reader.Info().Tail > e.Seq
			return true, nil
		}
	}
	return false, nil
}

// match begins the wait for the rest of the output of the same moment.
func (p *page) match() {
	p.facts.Matched = true
	p.q.wanted = wanted{}
	p.deadline = p.last.Add(matchAtMost)
	p.room = min(p.room, p.q.maxBytes/4) // it must not displace the match
}

// isFull reports whether an answer that ends at its limits ends before e. It has at least one event, or in a text some
// output.
func (p *page) isFull(e *reprise.Event) bool {
	switch {
	case p.q.pages && p.count >= p.q.limit:
		return true
	case p.q.form == formQuiet:
		return false
	case p.q.form == formSearch:
		return p.q.found.room <= 0
	case p.q.form == formText:
		channel, data := said(e)
		return channel != "" && p.transcript.on != "" && len(data) > p.room
	}
	return p.count > 0 && len(e.Data) > p.room
}

// take keeps an event in the requested form, and reports whether it completes a match.
func (p *page) take(ctx context.Context, stream *reprise.Stream, e *reprise.Event) (matched bool, err error) {
	if e.Type == execution.Stdout || e.Type == execution.Stderr || e.Type == reprise.TypeEnd {
		p.last = time.Now()
		if p.first.IsZero() {
			p.first = p.last
		}
	}
	channel, text := p.transcript.plain(e)
	if len(text) > 0 && e.Seq > p.q.wantedAfter {
		p.unended[channel] = text[len(text)-1] != '\n' && text[len(text)-1] != '\r'
	}
	if p.q.form == formSearch {
		return false, p.q.found.take(ctx, &p.q.wanted, channel, text)
	}
	end := -1
	if p.q.wanted.any() && e.Seq > p.q.wantedAfter {
		end, err = p.matchIn(ctx, channel, text)
	}
	switch p.q.form {
	case formQuiet: // the watcher has seen it
	case formText:
		p.room -= len(text)
		p.widest = max(p.widest, len(text))
		n := p.shownOf(text, end)
		p.transcript.add(channel, e.Seq, text[:n])
		p.left.bytes, p.left.after = len(text)-n, e.Seq-1
	default:
		p.room -= len(e.Data)
		p.events = append(p.events, eventOf(stream, e))
	}
	return end >= 0, err
}

// matchIn searches the newest output of a channel for the expected text, and returns where in text it ends, or -1.
func (p *page) matchIn(ctx context.Context, channel string, text []byte) (int, error) {
	if len(text) == 0 {
		return -1, nil
	}
	before := len(p.windows[channel])
	window := append(p.windows[channel], text...)
	end, err := p.q.wanted.find(ctx, window)
	p.windows[channel] = append([]byte(nil), window[max(0, len(window)-windowBytes):]...)
	if end < 0 {
		return -1, err
	}
	return max(0, end-before), nil
}

// shownOf returns how much of text is shown if a match ends in it: what follows the match must not displace it.
func (p *page) shownOf(text []byte, end int) int {
	follows := p.q.maxBytes / 4
	total := p.transcript.clip.total + int64(len(text))
	if end < 0 || p.q.pages || len(text)-end <= follows || total <= int64(p.q.maxBytes) {
		return len(text)
	}
	some := text[:end+follows]
	if i := bytes.LastIndexByte(some, '\n'); i > end {
		return i + 1
	}
	return len(some) - cutRune(some)
}

// remaining returns how long to wait for more, or 0 or less if the answer is complete.
func (p *page) remaining(now time.Time) time.Duration {
	deadline := p.deadline
	switch {
	case p.facts.Matched || p.prompted():
		deadline = earlier(deadline, p.last.Add(matchQuiet))
	case p.q.until == "":
		return 0
	case p.q.until == untilOutput && !p.first.IsZero():
		deadline = earlier(deadline, earlier(p.last.Add(p.watcher.quiet), p.first.Add(collectAtMost)))
	}
	return deadline.Sub(now)
}

// prompted reports whether a wait for a prompt has seen one: a line without its end, on either channel.
func (p *page) prompted() bool {
	return p.q.until == untilPrompt && (p.unended[execution.Stdout] || p.unended[execution.Stderr])
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// eventOf returns the visible form of an event.
func eventOf(stream *reprise.Stream, e *reprise.Event) outputEvent {
	shown := outputEvent{
		ID: stream.Cursor(e.Seq).String(), Type: e.Type, seq: e.Seq, at: e.Time,
		Time: e.Time.UTC().Format(timeFormat),
	}
	switch {
	case e.Type != execution.Stdout && e.Type != execution.Stderr:
		if json.Valid(e.Data) {
			shown.Data = json.RawMessage(e.Data)
		}
	case isText(e.Data):
		shown.Text = string(e.Data)
	default:
		shown.Base64 = base64.StdEncoding.EncodeToString(e.Data)
	}
	return shown
}

// ended fills in the end, which the reader has reached.
func (p *page) ended(reader *reprise.Reader) {
	info := reader.Info()
	if info.End == nil {
		return
	}
	p.facts.End = &endOutput{}
	_ = json.Unmarshal(info.End.Data, p.facts.End) // we wrote it, or it has no such members
	p.facts.End.Outcome = info.End.Outcome
}
