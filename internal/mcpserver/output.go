package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
)

const (
	// maxWait limits the wait of every tool: clients give up after 60 s. The answer says that it is the longest.
	maxWait = 50 * time.Second
	// defaultWait is the wait of a call that names none but has to wait.
	defaultWait = 30 * time.Second

	defaultLimit = 200
	maxLimit     = 1000
)

// saidLongest is how maxWait is named in answers.
var saidLongest = fmt.Sprintf("%v, the longest wait of a call", maxWait)

// What get_execution_output waits for.
const (
	untilOutput = "output"
	untilEnd    = "end"
	untilMatch  = "match"
	untilPrompt = "prompt"
)

type outputInput struct {
	ID          string    `json:"execution_id"`
	Cursor      cursorArg `json:"cursor,omitzero" jsonschema:"read on from the cursor of an earlier answer, or tail (default: the beginning)"`
	Wait        waitArg   `json:"wait,omitzero" jsonschema:"seconds to wait for until, 0 to 50 (default 0, with until 30)"`
	Until       string    `json:"until,omitempty" jsonschema:"output (default): some and a pause; end; match: of match or pattern; prompt: a line without end"`
	Match       string    `json:"match,omitempty" jsonschema:"text to wait for"`
	Pattern     string    `json:"pattern,omitempty" jsonschema:"RE2 to wait for"`
	MaxBytes    int       `json:"max_bytes,omitempty" jsonschema:"256 to 1048576 (default 30000)"`
	Limit       int       `json:"limit,omitempty" jsonschema:"events, 1 to 1000"`
	LastEventID eventArg  `json:"last_event_id,omitzero" jsonschema:"event_id to go on from"`
	Events      bool      `json:"events,omitempty" jsonschema:"for programs: events in place of text"`
	Quiet       bool      `json:"quiet,omitempty" jsonschema:"show only the last lines and counts (until: end)"`
}

// form is how the events of a run are answered.
type form int

const (
	formText    form = iota // a transcript for a model
	formQuiet               // the last lines and counts
	formSearch              // the lines that match
	formEvents              // events as structured content
	formSandbox             // events as the first sandbox server names them
)

// outputQuery selects a part of the stream.
type outputQuery struct {
	at    reprise.Position
	seq   uint64 // in place of at
	bySeq bool
	wait  time.Duration
	until string
	// wanted is what until match waits for, in events after the seq wantedAfter.
	wanted          wanted
	found           *found // by formSearch
	wantedAfter     uint64
	limit, maxBytes int
	form            form
	// pages is true if the answer ends when limit or maxBytes is reached; otherwise it is cut in the middle.
	pages bool
	// strict is true if maxBytes was asked for: an event that alone is longer is then cut.
	strict bool
}

// outputQuery validates the input.
func (s *Server) outputQuery(in *outputInput) (q outputQuery, err error) {
	switch {
	case in.Quiet && (in.Events || in.Limit != 0 || in.Wait.isFlag):
		return q, &execution.FieldError{Field: "quiet", Reason: "it shows no events: leave events and limit out"}
	case in.Quiet:
		q.form = formQuiet
	case in.Wait.isFlag || in.Cursor.isSeq || in.LastEventID.given:
		q.form = formSandbox
	case in.Events:
		q.form = formEvents
	}
	if q.maxBytes, err = s.bound(in.MaxBytes); err != nil {
		return q, err
	}
	q.strict = in.MaxBytes > 0
	switch q.limit = in.Limit; {
	case q.limit == 0:
		q.limit = defaultLimit
	case q.limit < 0 || q.limit > maxLimit:
		return q, &execution.FieldError{Field: "limit", Reason: fmt.Sprintf("1 to %d are taken", maxLimit)}
	}
	if q.form == formSandbox {
		q.unbounded(in)
	}
	if err := q.setWait(in); err != nil {
		return q, err
	}
	q.pages = q.form != formQuiet &&
		(q.form != formText || in.Limit > 0 || q.until == "" || q.until == untilOutput)
	if q.pages && q.form == formText && in.Limit == 0 {
		q.limit = maxLimit
	}
	if in.Cursor.isSeq {
		q.seq, q.bySeq = in.Cursor.seq, true
		if in.LastEventID.text != "" {
			return q, &execution.FieldError{Field: "last_event_id", Reason: "cursor is given too"}
		}
		return q, nil
	}
	q.at, err = position(in.Cursor.text, in.LastEventID.text)
	return q, err
}

// setWait sets the condition and the duration of the wait.
func (q *outputQuery) setWait(in *outputInput) (err error) {
	q.until = in.Until
	switch {
	case q.until == "" && (in.Match != "" || in.Pattern != ""):
		q.until = untilMatch
	case q.until == "" && (in.Wait.flag || in.Quiet):
		q.until = untilEnd
	case q.until == "" && in.Wait.seconds > 0:
		q.until = untilOutput
	}
	switch q.until {
	case "", untilOutput, untilEnd, untilPrompt:
		if in.Match != "" || in.Pattern != "" {
			return &execution.FieldError{Field: "until", Reason: "match and pattern need until match"}
		}
	case untilMatch:
		if q.wanted, err = wantedOf(in.Match, in.Pattern); err != nil {
			return err
		}
	default:
		return &execution.FieldError{Field: "until", Reason: "output, end, match and prompt are taken"}
	}
	switch {
	case in.Wait.flag:
		q.wait = maxWait
	case in.Wait.given:
		q.wait, err = longestWait("wait", in.Wait.seconds)
	case q.until != "":
		q.wait = defaultWait
	}
	return err
}

// output reads events of a run.
func (s *Server) output(ctx context.Context, req *mcp.CallToolRequest,
	in outputInput,
) (*mcp.CallToolResult, any, error) {
	c, err := s.enterFor(ctx, req, toolOutput, in.ID)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.openOutput(ctx, req, c, &in)
	if in.LastEventID.text != "" && isCursorRefused(err) {
		return sandboxRefusal(in.LastEventID.text, err)
	}
	if err != nil {
		return nil, nil, err
	}
	defer r.close()
	if err := r.page.read(ctx, r.Reader); err != nil {
		return nil, nil, err
	}
	s.noteShown(c, in.ID, r.page.facts.Cursor)
	if r.page.q.form == formSandbox {
		return s.sandboxAnswer(ctx, c.tenant, r.page, in.LastEventID.text)
	}
	return r.page.answer(r.Reader)
}

// outputReader is a reader and the answer that it is read for.
type outputReader struct {
	*reprise.Reader
	page     *page
	unfollow func()
}

func (r *outputReader) close() {
	r.Close()
	r.unfollow()
}

// openOutput opens the reader for a caller who wants output. The caller closes it.
func (s *Server) openOutput(ctx context.Context, req *mcp.CallToolRequest, c caller,
	in *outputInput,
) (*outputReader, error) {
	q, err := s.outputQuery(in)
	return s.openQuery(ctx, req, c, in.ID, &q, err)
}

// openQuery is openOutput for a query, or for the error with which its input was refused.
func (s *Server) openQuery(ctx context.Context, req *mcp.CallToolRequest, c caller, id string, q *outputQuery,
	err error,
) (*outputReader, error) {
	if err != nil && !errors.Is(err, reprise.ErrCursorMalformed) {
		return nil, err
	}
	malformed := err
	stream, err := s.host.Stream(ctx, c.tenant, id)
	if err != nil {
		return nil, s.unknown(ctx, c, id, err)
	}
	if malformed != nil {
		return nil, askable(ctx, stream, malformed)
	}
	if q.bySeq && q.seq > 0 {
		q.at = reprise.After(stream.Cursor(q.seq))
	}
	q.wanted.tenant, q.wanted.places = c.tenant, s.matching
	r := &outputReader{
		page:     newPage(id, q, s.watch(req, id)),
		unfollow: s.host.FollowIf(ctx, c.tenant, id, c.who.MayLeave),
	}
	if r.Reader, err = r.page.open(ctx, stream, q.at); err != nil {
		r.unfollow()
		return nil, askable(ctx, stream, err)
	}
	return r, nil
}

// shownTo identifies whom the output of an execution is shown to.
type shownTo struct {
	tenant    reprise.Tenant
	principal string
	id        string
}

// noteShown remembers up to where output was shown, for a later call that writes to stdin.
func (s *Server) noteShown(c caller, id, cursor string) {
	s.shown.Store(shownTo{c.tenant, c.who.Name, id}, cursor)
}

// truncatedOutput describes output that can no longer be read.
type truncatedOutput struct {
	// Missed is the number of events that are no longer kept. TakenBack is the number of events before the requested
	// position that the server has lost since.
	Missed    uint64 `json:"missed"`
	TakenBack uint64 `json:"taken_back,omitempty"`
	Earliest  string `json:"earliest"`
	Reason    string `json:"reason"`
}

// endOutput is how a run has ended.
type endOutput struct {
	Outcome  string  `json:"outcome"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Signal   *string `json:"signal,omitempty"`
	Error    string  `json:"error,omitempty"`
	// KilledProcesses still ran when the command had ended; KilledCommands are what the first of them ran.
	KilledProcesses int      `json:"killed_processes,omitempty"`
	KilledCommands  []string `json:"killed_commands,omitempty"`
}

// outputFacts is the part of an answer for programs.
type outputFacts struct {
	ID string `json:"execution_id"`
	// Cursor is the position after the last event of this answer.
	Cursor  string `json:"cursor"`
	HasMore bool   `json:"has_more"`
	Matched bool   `json:"matched,omitempty"`
	// Lines is the number of lines that a search has found.
	Lines int `json:"lines,omitempty"`
	// Omitted is the number of bytes that were left out in the middle, and Gone how many of them are no longer kept.
	Omitted   int64            `json:"omitted,omitempty"`
	Gone      int64            `json:"gone,omitempty"`
	Truncated *truncatedOutput `json:"truncated,omitempty"`
	End       *endOutput       `json:"end,omitempty"`
	// Stdin is what send_stdin has written.
	Stdin *stdinOutput `json:"stdin,omitempty"`
}

// eventsOutput is the structured content of an answer with events.
type eventsOutput struct {
	outputFacts
	Events []outputEvent `json:"events"`
}

// answer is the result of the tool.
func (p *page) answer(reader *reprise.Reader) (*mcp.CallToolResult, any, error) {
	var b strings.Builder
	if w := p.facts.Stdin; w != nil && !w.Whole {
		fmt.Fprintf(&b, "[it does not read all of the input: it has been given %d bytes in all]\n", w.Offset)
	}
	p.facts.Truncated.write(&b)
	if p.q.form == formEvents {
		fmt.Fprintf(&b, "[%d events]\n", len(p.events))
		p.writeEnd(&b)
		content := []mcp.Content{&mcp.TextContent{Text: b.String()}}
		return &mcp.CallToolResult{Content: content}, &eventsOutput{p.facts, p.events}, nil
	}
	switch p.q.form {
	case formSearch:
		p.q.found.write(&b)
		p.facts.Lines = p.q.found.lines
	case formQuiet:
		p.watcher.writeQuiet(&b)
		p.facts.Omitted = p.watcher.stdout.bytes + p.watcher.stderr.bytes
	default:
		p.writeText(&b, reader)
	}
	p.writeEnd(&b)
	return facts(b.String(), &p.facts), nil, nil
}

// writeText writes the transcript.
func (p *page) writeText(b *strings.Builder, reader *reprise.Reader) {
	stream := reader.Stream()
	limit, note := p.q.maxBytes, noteOf(stream)
	switch {
	case p.q.pages && p.q.strict && p.room < 0:
		note = noteOfEvent(stream, p.widest)
	case p.q.pages:
		limit = unclipped
	}
	text, shown := p.transcript.text(limit, reader.Info().Earliest, note)
	b.WriteString(text)
	if p.left.bytes > 0 {
		b.WriteString(strings.TrimPrefix(note(omission{omitted: int64(p.left.bytes), after: p.left.after}), "\n"))
	}
	p.facts.Omitted, p.facts.Gone = shown.omitted+int64(p.left.bytes), shown.gone
}

func (t *truncatedOutput) write(b *strings.Builder) {
	if t == nil {
		return
	}
	if t.Missed > 0 || t.TakenBack == 0 {
		fmt.Fprintf(b, "[%d events before this are no longer kept]\n", t.Missed)
	}
	if t.TakenBack > 0 {
		fmt.Fprintf(b, "[the server has lost the last %d events before the asked position]\n", t.TakenBack)
	}
}

// writeEnd writes the line that says how to continue. It is short, because every answer contains it.
func (p *page) writeEnd(b *strings.Builder) {
	f := &p.facts
	switch {
	case f.End != nil:
		b.WriteString(killedNote(f.End.KilledProcesses, f.End.KilledCommands) + "[")
		if f.Matched {
			b.WriteString("matched; ")
		}
		b.WriteString("ended: " + f.End.Outcome)
		if f.End.ExitCode != nil {
			fmt.Fprintf(b, ", exit code %d", *f.End.ExitCode)
		}
		if f.End.Signal != nil {
			b.WriteString(", signal " + *f.End.Signal)
		}
		if f.End.Error != "" {
			b.WriteString(", " + f.End.Error)
		}
		b.WriteString("]")
	case f.Matched:
		fmt.Fprintf(b, "[matched; cursor %q]", f.Cursor)
	case f.HasMore:
		fmt.Fprintf(b, "[more; cursor %q]", f.Cursor)
	default:
		b.WriteString("[goes on")
		if p.q.wait == maxWait && !time.Now().Before(p.deadline) {
			b.WriteString(" after " + saidLongest)
		}
		if p.q.until == untilMatch || p.q.until == untilPrompt {
			b.WriteString(", no " + p.q.until)
		}
		fmt.Fprintf(b, "; cursor %q]", f.Cursor)
	}
}
