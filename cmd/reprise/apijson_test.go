package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestJSONIsThatOfTheAPI: what a verb prints with --json has each member that the API answers with, and no other: an
// object a line, and for lists a line for each entry.
func TestJSONIsThatOfTheAPI(t *testing.T) {
	files := t.TempDir()
	check(t, os.WriteFile(filepath.Join(files, "file.txt"), []byte("text\n"), 0o600))
	o := &outliving{t: t, flags: []string{
		"--files", "work=" + files, "--max-interpreters", "2", "--webhook-allow", "127.0.0.0/8",
	}}
	o.open()
	run := o.verbs(t)
	id := strings.TrimSpace(run("run", "--detach", "--session", "s1", "--label", "a=b", "--artifact", "out.txt",
		"--cwd", o.dir, "--", "sh", "-c", "echo one; echo two >&2; echo three >out.txt"))
	run("wait", id)
	run("publish", "stream/1", "--json")
	interpreter := strings.TrimSpace(run("interpreter", "open", "bash"))
	run("key", "add", "agent", "--scope", "read")
	run("webhook", "add", "http://127.0.0.1:9/hook", "--stream", "stream/1")
	run("schedule", "add", "@yearly", "--", "true")
	first := func(verb string) string {
		var one struct{ ID string }
		check(t, json.Unmarshal([]byte(strings.SplitN(run(verb, "list", "--json"), "\n", 2)[0]), &one))
		return one.ID
	}
	key, webhook, schedule := first("key"), first("webhook"), first("schedule")
	for _, c := range []struct{ line, path, member string }{
		{"list --json", "/v1/executions", "executions"},
		{"list --streams --json", "/v1/streams", "streams"},
		{"list --sessions --json", "/v1/sessions", "sessions"},
		{"list --mcp --json", "/v1/mcp/sessions", "sessions"},
		{"list --tasks --json", "/v1/tasks", "tasks"},
		{"list --replicas --json", "/v1/replicas", "replicas"},
		{"show --json " + id, "/v1/executions/" + id, ""},
		{"show --json stream/1", "/v1/streams/stream%2F1", ""},
		{"show --json --session s1", "/v1/sessions/s1", ""},
		{"wait --json " + id, "/v1/executions/" + id, ""},
		{"logs --json " + id, "/v1/executions/" + id + "/events", "events"},
		{"follow --json " + id, "/v1/executions/" + id + "/events", "events"},
		{"artifacts --json " + id, "/v1/executions/" + id, "artifacts"},
		{"interpreter list --json", "/v1/interpreters", "interpreters"},
		{"interpreter show --json " + interpreter, "/v1/interpreters/" + interpreter, ""},
		{"key list --json", "/v1/keys", "keys"},
		{"key show --json " + key, "/v1/keys/" + key, ""},
		{"webhook list --json", "/v1/webhooks", "webhooks"},
		{"webhook show --json " + webhook, "/v1/webhooks/" + webhook, ""},
		{"schedule list --json", "/v1/schedules", "schedules"},
		{"schedule show --json " + schedule, "/v1/schedules/" + schedule, ""},
		{"files list --json", "/v1/files", "files"},
		{"files list --json work", "/v1/files?path=work", "files"},
		{"files show --json --checksum work/file.txt", "/v1/files/stat?checksum=true&path=work/file.txt", ""},
		{"files search --json --text text work", "/v1/files/search?path=work&text=text", "files"},
		{"quota --json", "/v1/quota", "quotas"},
		{"store stats --json --url " + o.url(), "/v1/store", ""},
		{"store check --json --url " + o.url(), "POST /v1/store/check", ""},
		{"store sweep --json --url " + o.url(), "POST /v1/store/sweep", ""},
	} {
		t.Run(c.line, func(t *testing.T) {
			var printed, answered []any
			for deadline := time.Now().Add(patience); ; { // what is in use changes with each request
				printed = jsonLines(t, o.verbs(t)(strings.Fields(c.line)...))
				answered = o.answered(t, c.path, c.member)
				if reflect.DeepEqual(printed, answered) {
					return
				}
				moves := strings.Contains(c.line, "quota") || strings.Contains(c.line, "store") ||
					strings.Contains(c.line, "replicas")
				if !moves || time.Now().After(deadline) {
					break
				}
			}
			t.Errorf("printed\n%v\nanswered\n%v", printed, answered)
		})
	}
}

func (o *outliving) url() string { return "http://" + o.daemon.addr }

// verbs returns a function that runs a verb against the server and returns what it prints.
func (o *outliving) verbs(t *testing.T) func(args ...string) string {
	program, err := os.Executable()
	check(t, err)
	return func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Args = append([]string{"reprise"}, args...)
		cmd.Env = append(os.Environ(), "REPRISE_URL="+o.url(), "REPRISE_TOKEN="+o.token())
		cmd.Stdin = strings.NewReader("a line\n")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, stderr.Bytes())
		}
		return string(out)
	}
}

// token is that of the server.
func (o *outliving) token() string {
	o.t.Helper()
	token, err := os.ReadFile(filepath.Join(o.dir, "data", "token"))
	check(o.t, err)
	return strings.TrimSpace(string(token))
}

// answered returns what the API answers at a path: its one value, or the entries of a member.
func (o *outliving) answered(t *testing.T, path, member string) []any {
	t.Helper()
	method := http.MethodGet
	if at, ok := strings.CutPrefix(path, "POST "); ok {
		method, path = http.MethodPost, at
	}
	r, err := http.NewRequestWithContext(t.Context(), method, o.url()+path, http.NoBody)
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+o.token())
	if strings.HasSuffix(path, "/events") {
		r.Header.Set("Accept", "application/json") // a page
	}
	res, err := http.DefaultClient.Do(r)
	check(t, err)
	body, err := io.ReadAll(res.Body)
	check(t, errors.Join(err, res.Body.Close()))
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", path, res.Status, body)
	}
	values := jsonLines(t, string(body))
	if member == "" {
		return values
	}
	if len(values) != 1 {
		t.Fatalf("%s: %s", path, body)
	}
	entries, ok := values[0].(map[string]any)[member].([]any)
	if !ok {
		t.Fatalf("%s has no %s: %s", path, member, body)
	}
	return entries
}

// jsonLines returns the JSON values of a text.
func jsonLines(t *testing.T, text string) []any {
	t.Helper()
	values := []any{}
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		var value any
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return values
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		values = append(values, value)
	}
}
