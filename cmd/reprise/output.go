package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"reprise"
	"reprise/client"
	"reprise/cmd/reprise/internal/printable"
)

// printer writes the events of a stream.
type printer interface {
	// print writes one event.
	print(client.Event) error
}

// channels writes output to stdout and stderr byte for byte, also to a terminal, as the command itself would; and
// otherwise only notices of missing events.
type channels struct {
	stdout, stderr io.Writer
}

func (c *channels) print(e client.Event) (err error) {
	switch {
	case e.Gap != nil:
		err = printGap(c.stderr, e.Gap)
	case e.IsJSON:
		err = c.printSaid(e)
	case e.Type == "stdout":
		_, err = c.stdout.Write(e.Data)
	case e.Type == "stderr":
		_, err = c.stderr.Write(e.Data)
	}
	return err
}

// lines writes the data of each event as a line: strings and bytes as they are, other JSON unchanged. To a terminal it
// writes printable text, since whoever publishes to a stream must not control the terminal of whoever reads it.
type lines struct {
	stdout, stderr io.Writer
	terminal       bool // stdout is one
}

func newLines(stdout, stderr io.Writer) *lines { return &lines{stdout, stderr, isTerminal(stdout)} }

func (l *lines) print(e client.Event) error {
	if e.Gap != nil {
		return printGap(l.stderr, e.Gap)
	}
	if e.End != nil {
		return nil
	}
	line := e.Data
	var text string
	if e.IsJSON && json.Unmarshal(e.Data, &text) == nil {
		line = []byte(text)
	}
	if l.terminal {
		line = []byte(printable.Text(strings.ReplaceAll(string(line), "\r\n", "\n")))
	}
	if len(line) == 0 || line[len(line)-1] != '\n' {
		line = append(line[:len(line):len(line)], '\n')
	}
	_, err := l.stdout.Write(line)
	return err
}

// printGap prints a notice of missing events.
func printGap(w io.Writer, gap *client.Gap) error {
	text := "the history before this is no longer kept"
	switch {
	case gap.TakenBack > 0 && gap.Missed > 0:
		text = fmt.Sprintf("%d events that were read no longer exist in the store, and %d before this are no longer kept",
			gap.TakenBack, gap.Missed)
	case gap.TakenBack > 0:
		text = fmt.Sprintf("%d events that were read no longer exist in the store", gap.TakenBack)
	case gap.Missed > 0:
		text = fmt.Sprintf("%d events before this are no longer kept", gap.Missed)
	}
	_, err := fmt.Fprintf(w, "reprise: %s (%s)\n", text, printable.Line(gap.Code))
	return err
}

// objects writes each event as a line of JSON, in the form of the API's NDJSON.
type objects struct {
	stdout   io.Writer
	terminal bool // stdout is one
}

func newObjects(stdout io.Writer) *objects { return &objects{stdout, isTerminal(stdout)} }

func (o *objects) print(e client.Event) error {
	line, err := eventJSON(e)
	if err != nil {
		return err
	}
	if o.terminal {
		line = printable.JSON(line)
	}
	_, err = o.stdout.Write(append(reprise.AppendJSONLine(nil, line), '\n'))
	return err
}

// eventJSON is an event with its cursor and type as an object.
func eventJSON(e client.Event) ([]byte, error) {
	if e.Started != nil || e.End != nil || e.Gap != nil { // Data is the object without the two
		members := map[string]json.RawMessage{}
		if err := json.Unmarshal(e.Data, &members); err != nil {
			return nil, err
		}
		for name, value := range map[string]string{"cursor": e.Cursor, "type": e.Type} {
			members[name], _ = json.Marshal(value)
		}
		return json.Marshal(members)
	}
	object := struct {
		Seq    uint64          `json:"seq"`
		Cursor string          `json:"cursor"`
		Time   string          `json:"time"`
		Type   string          `json:"type"`
		Text   *string         `json:"text,omitempty"`
		Base64 []byte          `json:"base64,omitempty"`
		Data   json.RawMessage `json:"data,omitempty"`
	}{Seq: e.Seq, Cursor: e.Cursor, Time: e.Time.UTC().Format(timeLayout), Type: e.Type}
	switch text := string(e.Data); {
	case e.IsJSON:
		object.Data = e.Data
	case utf8.ValidString(text):
		object.Text = &text
	default:
		object.Base64 = e.Data
	}
	return json.Marshal(object)
}

// timeLayout is RFC 3339 with milliseconds, as the API writes times.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// outcome returns the exit code for the end of an execution or stream, and a line with details that the code does not
// express.
func outcome(end *client.End) error {
	switch end.Outcome {
	case client.Exited, client.Signaled:
		return commandExit(end, 0, nil)
	case "completed":
		return nil
	case client.TimedOut:
		return &exit{code: exitTimedOut, err: fmt.Errorf("the command timed out after %v", durationMS(end.DurationMS))}
	case client.FailedToStart:
		return &exit{code: exitNoStart, err: fmt.Errorf("the command could not be started: %s", end.Error)}
	case client.Cancelled:
		return commandExit(end, exitCancelled, fmt.Errorf("the command was cancelled%s", because(end.Error)))
	case client.LimitExceeded:
		return commandExit(end, exitOurs, fmt.Errorf("the command exceeded its limit on %s", end.Limit))
	case client.Lost:
		return &exit{
			code: exitOurs,
			err:  fmt.Errorf("the command was lost%s; whether it finished is not known", because(end.Error)),
		}
	}
	return &exit{code: exitFailed, err: fmt.Errorf("the stream ended as %s", end.Outcome)}
}

// commandExit returns the exit code of the command, but never 0 if instead says that it did not succeed.
func commandExit(end *client.End, instead int, err error) error {
	code := instead
	switch {
	case end.Signal != nil:
		code = exitSignaled + signalNumber(*end.Signal)
	case end.ExitCode != nil && *end.ExitCode != 0:
		code = *end.ExitCode
	}
	if code == 0 && err == nil {
		return nil
	}
	return &exit{code: code, err: err}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
