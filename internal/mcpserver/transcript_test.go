package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/tools/txtar"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/mcpserver"
	"reprise/store/memstore"
)

var update = flag.Bool("update", false, "write what the server says into the transcripts")

// TestTranscriptsOfTools: what a client sends, line by line, and what the server says, with what differs each time left
// out.
func TestTranscriptsOfTools(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := converse(t, string(archive.Files[0].Data))
			if *update {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "server", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// justStarted is a command that runs, and may not have been started yet when the answer was made.
var justStarted = regexp.MustCompile(`("status": "running",\s*"created": "TIME",)\s*"started": "TIME",`)

// converse sends lines, each after the answer to the one before. $name stands for what an answer has had under that
// name.
func converse(t *testing.T, script string) string {
	log, err := reprise.Open(t.Context(), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	host, err := execution.Open(t.Context(), log,
		&execution.Options{StateDir: t.TempDir(), Secret: []byte("secret"), Drive: interpreter.Drive})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	opts := &mcpserver.Options{Version: "1", TaskAfter: 4 * time.Second, Directory: "/"}
	server, err := mcpserver.New(log, host, opts)
	if err != nil {
		t.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out}) }()
	defer func() { stop(); toServer.Close(); fromServer.Close(); <-done; server.Close() }()
	answers := bufio.NewScanner(fromServer)
	answers.Buffer(nil, 1<<20)
	var said strings.Builder
	known := map[string]string{}
	for line := range strings.Lines(script) {
		for name, value := range known {
			line = strings.ReplaceAll(line, "$"+name, value)
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if _, err := fmt.Fprintln(toServer, line); err != nil {
			t.Fatal(err)
		}
		var m struct{ ID any }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for m.ID != nil && answers.Scan() {
			said.WriteString(justStarted.ReplaceAllString(normal(t, answers.Bytes()), "$1"))
			for _, found := range named.FindAllSubmatch(answers.Bytes(), -1) {
				known[string(found[1])] = string(found[2])
			}
			var a struct{ ID any }
			if err := json.Unmarshal(answers.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			if a.ID == m.ID {
				break
			}
		}
	}
	return said.String()
}

var named = regexp.MustCompile(`"(execution_id|cursor|taskId)":"([^"]+)"`)

// differs is what is another each time.
var differs = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
	{regexp.MustCompile(`\d+\.[0-9A-Z]{16}\.[0-9A-Z]{13}`), "CURSOR"},
	{regexp.MustCompile(`\b[a-z2-7]{26}\b`), "EXECUTION"},
	{regexp.MustCompile(`\b[A-Z2-7]{26}\b`), "TASK"},
	{regexp.MustCompile(`after [0-9.]+m?s`), "after DURATION"},
	{regexp.MustCompile(`"(duration_ms|user_ms|system_ms|max_rss_bytes|pid|ttlMs)":\s*\d+`), `"$1": N`},
	{regexp.MustCompile(`"(kill|level|memory_bytes|processes|cpu_time)":\s*"[a-z]*"`), `"$1": "LEVEL"`},
}

// normal is a message with what differs each time left out, over several lines.
func normal(t *testing.T, message []byte) string {
	t.Helper()
	for _, d := range differs {
		message = d.pattern.ReplaceAll(message, []byte(d.text))
	}
	message = bytes.ReplaceAll(message, []byte(`": N`), []byte(`": "N"`))
	var buf bytes.Buffer
	if err := json.Indent(&buf, message, "", "  "); err != nil {
		t.Fatalf("%v: %s", err, message)
	}
	return buf.String() + "\n"
}
