// Command agent does four tasks with the tools of "reprise mcp" as a model would, by a script in place of a model, and
// writes down what it called and what it was shown:
//
//	go run ./examples/mcp/agent -task build      # a build of ten minutes; -build 30s makes it shorter
//	go run ./examples/mcp/agent -task noisy      # a build of 90 seconds that writes 5 kB each second
//	go run ./examples/mcp/agent -task debugger   # a session with a debugger over stdin
//	go run ./examples/mcp/agent -task windows    # a run whose window is killed, and which another one picks up
//
// With -before it uses the tools as they were before they could wait for an end or a match; -reprise then names a
// binary of that time. The transcripts beside it were made like that.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	task := flag.String("task", "build", "build, noisy, debugger or windows")
	binary := flag.String("reprise", "", "the program reprise; default: the one of this tree, which is built")
	build := flag.Duration("build", 10*time.Minute, "how long the build takes, of which each second has a line")
	before := flag.Bool("before", false, "use the tools as they were before")
	flag.Parse()
	log.SetFlags(0)
	if err := run(*task, *binary, *build, *before, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run does a task in a new data directory.
func run(task, binary string, build time.Duration, before bool, out io.Writer) error {
	dir, err := os.MkdirTemp("", "agent-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if binary == "" {
		binary = filepath.Join(dir, "reprise")
		made, err := exec.Command("go", "build", "-o", binary, "reprise/cmd/reprise").CombinedOutput()
		if err != nil {
			return fmt.Errorf("go build: %w: %s", err, made)
		}
	}
	h := &host{binary: binary, data: filepath.Join(dir, "data"), before: before, out: out}
	defer h.close()
	tasks := map[string]func() error{
		"build": func() error { return h.build(build) }, "noisy": func() error { return h.noisy(build) },
		"debugger": h.debugger, "windows": h.windows,
	}
	f, ok := tasks[task]
	if !ok {
		return fmt.Errorf("there is no task %q", task)
	}
	if err := f(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d calls; the model was shown %d bytes\n", h.calls, h.bytes)
	return nil
}

// host is what a model talks to tools through: a program that starts "reprise mcp".
type host struct {
	binary, data string
	before       bool
	out          io.Writer
	opened       []*window

	calls int
	bytes int // that the model was shown
}

// window is a "reprise mcp" and its client.
type window struct {
	host    *host
	name    string
	session *mcp.ClientSession
	command *exec.Cmd
}

// open starts a "reprise mcp" on the data directory.
func (h *host) open(name string) (*window, error) {
	command := exec.Command(h.binary, "mcp", "--data", h.data, "--log-level", "error")
	command.Env = append(os.Environ(), "REPRISE_URL=", "REPRISE_TOKEN=")
	var said strings.Builder
	command.Stderr = &said
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(context.Background(), &mcp.CommandTransport{Command: command},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		return nil, fmt.Errorf("window %s does not open: %w: %s", name, err, strings.TrimSpace(said.String()))
	}
	w := &window{host: h, name: name, session: session, command: command}
	h.opened = append(h.opened, w)
	return w, nil
}

func (h *host) close() {
	for _, w := range h.opened {
		_ = w.session.Close() // one that was killed has gone already
	}
}

// call calls a tool, and returns what a host shows a model: the structured content where there is one, as widely used
// hosts do, or the text.
func (w *window) call(tool string, arguments map[string]any) (answer, error) {
	asked, err := json.Marshal(arguments)
	if err != nil {
		return answer{}, err
	}
	fmt.Fprintf(w.host.out, "%s> %s %s\n", w.name, tool, shorten(string(asked)))
	result, err := w.session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return answer{}, err
	}
	a := answer{}
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			a.text += text.Text
		}
	}
	shown := a.text
	facts := result.Meta["reprise/execution"]
	if result.StructuredContent != nil {
		facts = result.StructuredContent
		data, err := json.Marshal(facts)
		if err != nil {
			return a, err
		}
		shown = string(data)
	}
	w.host.calls++
	w.host.bytes += len(shown)
	fmt.Fprintf(w.host.out, "%s\n", indent(shorten(shown)))
	if result.IsError {
		return a, errors.New(a.text)
	}
	data, err := json.Marshal(facts)
	if err == nil {
		err = json.Unmarshal(data, &a.facts)
	}
	return a, err
}

// answer is what a call is answered with.
type answer struct {
	text  string
	facts struct {
		ID     string `json:"execution_id"`
		Cursor string `json:"cursor"`
		// Outcome is that of execute_code, End that of get_execution_output.
		Outcome string `json:"outcome"`
		End     *struct {
			Outcome string `json:"outcome"`
		} `json:"end"`
	}
}

// over reports whether the run has ended.
func (a *answer) over() bool { return a.facts.Outcome != "" || a.facts.End != nil }

// maxLines is how much of an answer a transcript has.
const maxLines = 12

// shorten leaves out the middle of an answer.
func shorten(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		if len(line) > 300 {
			lines[i] = line[:300] + fmt.Sprintf(" ... %d bytes", len(line)-300)
		}
	}
	if len(lines) <= maxLines {
		return strings.Join(lines, "\n")
	}
	kept := append([]string{}, lines[:maxLines/2]...)
	kept = append(kept, fmt.Sprintf("(%d lines)", len(lines)-maxLines))
	return strings.Join(append(kept, lines[len(lines)-maxLines/2:]...), "\n")
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }
