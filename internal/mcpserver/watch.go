package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
	"reprise/mcp/mcptask"
)

// Why a watcher brings no events.
var (
	errAtEnd  = errors.New("the stream has ended")
	errWaited = errors.New("the wait is over")
)

// watcher reports the progress of a run to the waiting client: by progress notifications if the client has requested
// them, or by the status of the task that the call has become.
type watcher struct {
	session *mcp.ServerSession
	token   any // nil if the client has not requested progress
	every   time.Duration
	quiet   time.Duration // see defaultQuiet
	id      string

	stdout, stderr heard
	last           *heard // the channel of the newest output, nil before

	count  float64
	said   string
	begun  time.Time
	sayAt  time.Time
	tellAt time.Time
}

// sayEvery is the time between two status messages of a task: each is kept.
const sayEvery = 5 * time.Second

// lineBytes is how much of a line of output is shown as progress.
const lineBytes = 200

func (s *Server) watch(req *mcp.CallToolRequest, id string) *watcher {
	now := time.Now()
	return &watcher{
		session: req.Session, token: req.Params.GetProgressToken(), every: s.opts.ProgressEvery, id: id,
		quiet: s.opts.quiet,
		begun: now, tellAt: now.Add(s.opts.ProgressEvery),
	}
}

// saw takes an event.
func (w *watcher) saw(e *reprise.Event) {
	channel, data := said(e)
	switch {
	case len(data) == 0:
		return
	case channel == execution.Stdout:
		w.last = &w.stdout
	default:
		w.last = &w.stderr
	}
	w.last.add(data)
}

// forget begins again, for a run whose output is read again.
func (w *watcher) forget() { w.stdout, w.stderr, w.last = heard{}, heard{}, nil }

// line is the last line of output.
func (w *watcher) line() string {
	if w.last == nil {
		return ""
	}
	return w.last.line.String()
}

// heard is what a watcher knows of a channel.
type heard struct {
	bytes int64
	ends  int64 // of lines
	line  lastLine
	open  bool // the last line has no end yet
}

func (h *heard) add(data []byte) {
	h.bytes += int64(len(data))
	h.ends += int64(bytes.Count(data, []byte{'\n'}))
	h.open = data[len(data)-1] != '\n'
	h.line.add(data)
}

// lines returns the number of lines, with one that has no end yet.
func (h *heard) lines() int64 {
	if h.open {
		return h.ends + 1
	}
	return h.ends
}

// writeQuiet writes what an answer has in place of the output: the last line of each channel, and how much there was.
func (w *watcher) writeQuiet(b *strings.Builder) {
	if w.last == nil {
		b.WriteString("[no output]\n")
		return
	}
	w.stdout.writeLine(b, "")
	w.stderr.writeLine(b, "[stderr]\n")
	var counts []string
	for i, h := range []*heard{&w.stdout, &w.stderr} {
		if name := [...]string{execution.Stdout, execution.Stderr}[i]; h.bytes > 0 {
			counts = append(counts, fmt.Sprintf("%s %d (%d bytes)", name, h.lines(), h.bytes))
		}
	}
	fmt.Fprintf(b, "[last lines only; lines in all: %s]\n", strings.Join(counts, ", "))
}

// writeLine writes the last line under a heading.
func (h *heard) writeLine(b *strings.Builder, heading string) {
	if line := h.line.String(); line != "" {
		b.WriteString(heading + line + "\n")
	}
}

// lastLine is the last non-empty line of output as a terminal shows it: without escape sequences, and without text that
// is overwritten after a carriage return.
type lastLine struct {
	plain   plainer
	line    []byte
	unended bool // the line may continue
}

func (l *lastLine) add(data []byte) {
	data = l.plain.plain(data)
	for len(data) > 0 {
		i := bytes.IndexAny(data, "\r\n")
		piece := data
		if i >= 0 {
			piece = data[:i]
		}
		if len(piece) > 0 {
			if !l.unended {
				l.line = l.line[:0]
			}
			l.line = append(l.line, piece[:min(len(piece), max(0, lineBytes-len(l.line)))]...)
			l.unended = true
		}
		if i < 0 {
			return
		}
		l.unended = false
		data = data[i+1:]
	}
}

func (l *lastLine) String() string {
	line := l.line[:len(l.line)-cutRune(l.line)]
	if !isText(line) {
		return ""
	}
	return string(line)
}

// next returns the next run of events, and reports progress while it waits. The error is errAtEnd after the end, and
// errWaited when wait is over since begun, unless wait is forEnd or the call has become a task.
func (w *watcher) next(ctx context.Context, reader *reprise.Reader, begun time.Time,
	wait time.Duration,
) (reprise.Events, error) {
	for {
		changed := reader.Changed()
		events, err := reader.Poll(ctx)
		switch {
		case errors.Is(err, reprise.ErrEnded):
			return events, errAtEnd
		case err != nil:
			return events, err
		}
		w.tell(ctx)
		if events.Len() > 0 {
			return events, nil
		}
		left := forEnd
		if wait != forEnd && mcptask.FromContext(ctx) == nil {
			if left = wait - time.Since(begun); left <= 0 {
				return events, errWaited
			}
		}
		if err := w.wait(ctx, changed, left); err != nil {
			return events, err
		}
	}
}

// wait waits for a change or the next report, but not longer than left, unless that is forEnd.
func (w *watcher) wait(ctx context.Context, changed <-chan struct{}, left time.Duration) error {
	if w.every > 0 && (left == forEnd || w.every < left) {
		left = w.every
	}
	var tick <-chan time.Time
	if left != forEnd {
		timer := time.NewTimer(left)
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-changed:
	case <-tick:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// tell reports the progress if a report is due. It ignores errors, which the client notices itself.
func (w *watcher) tell(ctx context.Context) {
	now := time.Now()
	if task := mcptask.FromContext(ctx); task != nil {
		w.tellTask(ctx, task, now)
		return
	}
	if w.token == nil || now.Before(w.tellAt) {
		return
	}
	w.tellAt = now.Add(w.every)
	w.count++
	_ = w.session.NotifyProgress(ctx,
		&mcp.ProgressNotificationParams{ProgressToken: w.token, Progress: w.count, Message: w.message(now)})
}

func (w *watcher) tellTask(ctx context.Context, task *mcptask.Task, now time.Time) {
	if now.Before(w.sayAt) {
		return
	}
	w.sayAt = now.Add(sayEvery)
	said := fmt.Sprintf("Execution %s is running; get_execution_output reads its output. %d bytes so far.", w.id,
		w.stdout.bytes+w.stderr.bytes)
	if said != w.said && task.Say(ctx, said) == nil {
		w.said = said
	}
}

func (w *watcher) message(now time.Time) string {
	said := fmt.Sprintf("execution %s has run for %v, %d bytes of output", w.id, now.Sub(w.begun).Round(time.Second),
		w.stdout.bytes+w.stderr.bytes)
	if line := w.line(); line != "" {
		said += ": " + line
	}
	return said
}
