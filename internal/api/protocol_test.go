package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
)

var update = flag.Bool("update", false, "write what the server answers into docs/protocol.md")

const protocolFile = "../../docs/protocol.md"

// exchange matches a block with a request and the block with its answer.
var exchange = regexp.MustCompile("(?s)```http\n([A-Z]+ .*?)```\n```http\n(.*?)```\n")

// What docs/protocol.md shows is what a server answers.
func TestProtocolDocument(t *testing.T) {
	text, err := os.ReadFile(protocolFile)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{}, 100) // the responses that created executions
	var started atomic.Int32
	hooks := &execution.Hooks{Started: func(reprise.Tenant, time.Duration) { <-answered; started.Add(1) }}
	w := start(t, setup{host: execution.Options{Hooks: hooks}})
	t.Cleanup(func() { close(answered) }) // before the server stops
	names := &fixedNames{actual: map[string]string{}}
	updated := exchange.ReplaceAllFunc(text, func(block []byte) []byte {
		parts := exchange.FindSubmatch(block)
		request, want := string(parts[1]), string(parts[2])
		got := names.fix(w.exchange(t, names.unfix(request)))
		if strings.HasPrefix(got, "HTTP/1.1 201") && strings.Contains(got, "\nExecution-Id: ") {
			answered <- struct{}{} // the command starts now, so that the response tells nothing of it
		}
		if got != want && !*update {
			t.Errorf("%s\nis answered with\n%s\nand not with\n%s", request, got, want)
		}
		return []byte("```http\n" + request + "```\n```http\n" + got + "```\n")
	})
	if started.Load() == 0 {
		t.Error("no command waited for the response to its start")
	}
	if n := len(exchange.FindAll(text, -1)); n < 15 {
		t.Errorf("%d exchanges were found", n)
	}
	if *update {
		if err := os.WriteFile(protocolFile, updated, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// shownHeaders are the headers of answers that the document shows.
var shownHeaders = []string{
	"Content-Type", "Location", "Execution-Id", "Content-Range", "Retry-After",
	"Stream-Earliest", "Stream-Tail", "Stream-Outcome",
}

// exchange sends a request that is written out and returns the answer the same way.
func (w *fixture) exchange(t *testing.T, request string) string {
	t.Helper()
	head, body, _ := strings.Cut(strings.TrimSuffix(request, "\n"), "\n\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + "\n\n")))
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	if strings.HasPrefix(r.URL.Path, "/v1/executions/") && r.Method == http.MethodGet {
		w.ended(strings.Split(r.URL.Path, "/")[3]) // the document tells of what is over
	}
	var headers []string
	for name := range r.Header {
		headers = append(headers, name+": "+r.Header.Get(name))
	}
	res := w.open(r.Method, r.URL.RequestURI(), body, headers...)
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	var out bytes.Buffer
	out.WriteString("HTTP/1.1 " + res.Status + "\n")
	for _, name := range shownHeaders {
		if value := res.Header.Get(name); value != "" {
			out.WriteString(name + ": " + value + "\n")
		}
	}
	if len(answer) > 0 {
		out.WriteString("\n")
		if strings.HasSuffix(res.Header.Get("Content-Type"), "json") &&
			res.Header.Get("Content-Type") != "application/x-ndjson" {
			if err := json.Indent(&out, bytes.TrimSpace(answer), "", "  "); err != nil {
				t.Fatal(err)
			}
			out.WriteString("\n")
		} else {
			out.WriteString(strings.TrimRight(string(answer), "\n") + "\n")
		}
	}
	return out.String()
}

// fixedNames puts the same names in the place of what is different in every run.
type fixedNames struct {
	actual map[string]string // by fixed epoch and tag
}

// The epochs and tags that the document shows, in the order in which streams appear.
var fixedStreams = []string{
	"7ZK3M9Q2VTX4WB8A.0F3KQ6T2M9YVC", "3QH8D1N6RBY5KTE2.9W4XGM7ZP2CSA", "B5D0ZC8J1QM6RT7W.4YKHN3E9VXF2G",
}

var (
	cursorText = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{16}\.[0-9A-HJKMNP-TV-Z]{13}\b`)
	timeText   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	ticketText = regexp.MustCompile(`eyJ[A-Za-z0-9_.-]+`)
)

// measured are the members whose numbers depend on the machine and the moment.
var measured = []struct {
	member *regexp.Regexp
	value  string
}{
	{regexp.MustCompile(`("pid": ?)\d+`), "${1}4711"},
	{regexp.MustCompile(`("cwd": ?)"/[^"]*"`), `${1}"/srv/jobs"`},
	{regexp.MustCompile(`("duration_ms": ?)\d+`), "${1}4"},
	{regexp.MustCompile(`("user_ms": ?)\d+`), "${1}1"},
	{regexp.MustCompile(`("system_ms": ?)\d+`), "${1}1"},
	{regexp.MustCompile(`("max_rss_bytes": ?)\d+`), "${1}2097152"},
	{regexp.MustCompile(`("kill": ?)"\w+"`), `${1}"cgroup"`},
	{
		// what this machine gives
		regexp.MustCompile(`"isolation":\{"level":"\w+",("kill": ?"\w+")(,"layers":\{[^}]*\})?`),
		`"isolation":{"level":"limits",$1,"layers":{"no_new_privileges":true,"capabilities":"none","hidden":"mounts","signals":"landlock",` +
			`"cgroups":"read_only","system_calls":"deny_list"}`,
	},
	{regexp.MustCompile(`("status": ?)"(queued|running|ended)"`), `${1}"running"`},
}

func (f *fixedNames) fix(text string) string {
	text = cursorText.ReplaceAllStringFunc(text, func(actual string) string {
		for fixed, known := range f.actual {
			if known == actual {
				return fixed
			}
		}
		fixed := fixedStreams[len(f.actual)]
		f.actual[fixed] = actual
		return fixed
	})
	text = timeText.ReplaceAllString(text, "2026-11-20T09:30:00.000Z")
	text = ticketText.ReplaceAllString(text, "eyJuYW1lIjoi...")
	for _, m := range measured {
		text = m.member.ReplaceAllString(text, m.value)
	}
	return text
}

func (f *fixedNames) unfix(text string) string {
	for fixed, actual := range f.actual {
		text = strings.ReplaceAll(text, fixed, actual)
	}
	return text
}
