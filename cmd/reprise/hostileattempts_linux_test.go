package main

import (
	"encoding/json"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// hostileAttempt is a member with a value, at a level.
type hostileAttempt struct {
	memberOf
	value hostileValue
	level string
}

func (a *hostileAttempt) String() string {
	at := a.level
	if at == "" {
		at = "the default level"
	}
	return a.memberOf.String() + " = " + a.value.name + " at " + at
}

// leveled reports whether the level is a member of the request.
func (m memberOf) leveled() bool {
	switch m.operation {
	case "POST /v1/executions", "POST /v1/interpreters":
		return true
	}
	return false
}

// few is how many values are skipped in the gate for each that is tried.
const few = 6

// attempts are those of a setting: in the gate its share of a part of all values of all members, else all of them, at
// all levels.
func (w *hostileWorld) attempts(members []memberOf, setting, settings int) (attempts []*hostileAttempt) {
	all := os.Getenv("REPRISE_TEST_SOAK") != ""
	n := 0
	for _, m := range members {
		for _, v := range w.values(m.kind) {
			n++
			levels := w.levels
			if m.kind == aProgram || m.kind == aScript {
				levels = slices.DeleteFunc(slices.Clone(levels), func(l string) bool { return l == "none" })
			}
			switch {
			case !all && n%(settings*few) != setting*few+n/(settings*few)%few:
				continue
			case !m.leveled():
				levels = []string{""}
			case m.name == "isolation":
				levels = []string{plainText(v.raw)}
			case !all:
				levels = levels[n/(settings*few)%len(levels):][:1]
			}
			for _, level := range levels {
				attempts = append(attempts, &hostileAttempt{m, v, level})
			}
		}
	}
	return attempts
}

// tryAll tries those that only start something side by side, and those that change files in turn.
func (w *hostileWorld) tryAll(attempts []*hostileAttempt) {
	w.Helper()
	next := make(chan *hostileAttempt)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for a := range next {
				w.try(a)
			}
		})
	}
	for _, a := range attempts {
		if !strings.Contains(a.operation, "/v1/files") {
			next <- a
		}
	}
	close(next)
	group.Wait()
	for _, a := range attempts {
		if strings.Contains(a.operation, "/v1/files") {
			w.arm(w.mine)
			w.try(a)
		}
	}
}

// try makes one attempt. What it makes is removed.
func (w *hostileWorld) try(a *hostileAttempt) {
	w.Helper()
	if tool, ok := strings.CutPrefix(a.operation, "tool "); ok {
		w.tryTool(a, tool)
		return
	}
	method, path, _ := strings.Cut(a.operation, " ")
	body, hostile := w.body(a), plainText(a.value.raw)
	var headers []string
	switch a.where {
	case "path":
		path = strings.ReplaceAll(path, "{"+a.name+"}", url.PathEscape(hostile))
	case "query":
		path += "?" + query(a.name, a.value.raw)
	case "header":
		headers = append(headers, a.name+": "+strings.Map(inHeader, hostile))
	}
	path = strings.NewReplacer("{id}", w.victimRun, "{path}", "token").Replace(path)
	if strings.HasPrefix(path, "/v1/files") && a.where == "query" {
		for name, value := range map[string]string{"path": "work/new", "size": "1", "sha256": strings.Repeat("0", 64)} {
			if name != a.name {
				path += "&" + name + "=" + value
			}
		}
	}
	if a.operation == "POST /v1/executions" {
		headers = append(headers, "Accept: text/event-stream")
	}
	status, text := w.send(w.key, method, path, body, headers...)
	w.answered(a, status, text)
	if status >= 300 || status == 0 {
		return
	}
	switch a.operation {
	case "POST /v1/executions":
		w.afterRun(a, text)
	case "POST /v1/interpreters":
		id := idOf(text)
		code, err := json.Marshal(map[string]string{"interpreter": id, "code": w.probeAt(a.level)})
		check(w.T, err)
		status, text := w.send(w.key, "POST", "/v1/executions", string(code), "Accept: text/event-stream")
		w.answered(a, status, text)
		w.send(w.key, "DELETE", "/v1/interpreters/"+id, "")
	case "POST /v1/schedules", "POST /v1/webhooks":
		w.send(w.key, "DELETE", path+"/"+idOf(text), "")
	}
}

// inHeader is what a header can have.
func inHeader(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}

// answered checks that there is an answer that blames the request, if anything, and has no canary.
func (w *hostileWorld) answered(a *hostileAttempt, status int, text string) {
	w.Helper()
	if status == 0 || status >= 500 {
		w.Errorf("%s: %d %.500s", a, status, text)
	}
	w.sees(a.String(), a.level, text)
}

// idOf is the id in an answer, "" for none. Attempts are made by goroutines, which cannot end the test.
func idOf(text string) string {
	var object struct{ ID string }
	_ = json.Unmarshal([]byte(text), &object)
	return object.ID
}

// afterRun looks at what is kept of a run, unless it was not started.
func (w *hostileWorld) afterRun(a *hostileAttempt, events string) {
	w.Helper()
	_, first, _ := strings.Cut(events, "data: ")
	first, _, _ = strings.Cut(first, "\n")
	id := idOf(first)
	if id == "" {
		if !strings.Contains(first, "failed_to_start") {
			w.Errorf("%s: it begins with %.300s", a, events)
		}
		return
	}
	status, shown := w.send(w.key, "GET", "/v1/executions/"+id, "")
	w.answered(a, status, shown)
	var kept struct {
		Status    string
		Artifacts []struct{ Path string }
	}
	if err := json.Unmarshal([]byte(shown), &kept); err != nil {
		w.Errorf("%s: %v in %s", a, err, shown)
	}
	if kept.Status != "ended" {
		w.Errorf("%s: it is %s", a, kept.Status)
	}
	for _, file := range kept.Artifacts {
		_, content := w.send(w.key, "GET", "/v1/executions/"+id+"/artifacts/"+(&url.URL{Path: file.Path}).EscapedPath(),
			"")
		w.sees(a.String()+", artifact "+file.Path, a.level, content)
	}
	if strings.HasPrefix(a.name, "tty.") {
		_, screen := w.send(w.key, "GET", "/v1/executions/"+id+"/screen", "")
		w.sees(a.String()+", screen", a.level, screen)
	}
}

// probeAt is what a command does at a level: at "none" it could do what the server can.
func (w *hostileWorld) probeAt(level string) string {
	if level == "none" {
		return "echo looked"
	}
	return w.probe
}

// plain is the body with which an operation does what it is for, where a member of the name can be varied.
func (w *hostileWorld) plain(operation, level, member string) string {
	probe := w.probeAt(level)
	run := map[string]any{
		"command": probe, "session": "hostile", "timeout": "20s", "env": map[string]string{"MARK": w.mark},
		"artifacts": []string{"token", "note", "l-data"},
	}
	if level != "" {
		run["isolation"] = level
	}
	switch member[strings.LastIndexByte(member, '.')+1:] {
	case "argv", "interpreter":
		delete(run, "command")
	case "code", "language":
		delete(run, "command")
		run["language"], run["code"] = "sh", probe
	case "key":
		delete(run, "id")
	}
	if w.withUser() {
		delete(run, "artifacts")
	}
	var body any = run
	switch operation {
	case "POST /v1/interpreters":
		delete(run, "command")
		delete(run, "artifacts")
		run["language"], run["grace"] = "bash", "1s"
	case "POST /v1/schedules":
		body = map[string]any{"cron": "@yearly", "execution": run}
	case "POST /v1/webhooks":
		body = map[string]any{"url": "http://127.0.0.1:1/"}
	case "POST /v1/files/move":
		body = map[string]any{"from": "work/file", "to": "work/benign/file"}
	case "POST /v1/files/directory", "POST /v1/files/watches":
		body = map[string]any{"path": "work/benign"}
	case "POST /v1/files/permissions":
		body = map[string]any{"path": "work/file", "mode": "755"}
	case "POST /v1/executions":
	case "PUT /v1/files/content":
		return "x"
	default:
		body = map[string]any{}
	}
	text, err := json.Marshal(body)
	check(w.T, err)
	return string(text)
}

// withUser reports whether commands run as another user than the server, which keeps no artifacts of them.
func (w *hostileWorld) withUser() bool {
	return strings.Contains(strings.Join(w.args, " "), "--run-as")
}

// body is the plain request with the value of an attempt in its place.
func (w *hostileWorld) body(a *hostileAttempt) string {
	plain := w.plain(a.operation, a.level, a.name)
	if a.where != "body" && a.where != "argument" {
		return plain
	}
	const place = `"the value"`
	var object map[string]any
	check(w.T, json.Unmarshal([]byte(plain), &object))
	names := strings.Split(a.name, ".")
	in := object
	for _, name := range names[:len(names)-1] {
		inner, _ := in[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
			in[name] = inner
		}
		in = inner
	}
	raw := a.value.raw
	switch {
	case a.kind == anEnvironment:
		raw = `{"MARK":"` + w.mark + `",` + raw + `}`
	case a.of == "array":
		raw = "[" + raw + "]"
	case a.of == "object":
		raw = `{"X":` + raw + `}`
	}
	in[names[len(names)-1]] = strings.Trim(place, `"`)
	text, err := json.Marshal(object)
	check(w.T, err)
	return strings.Replace(string(text), place, raw, 1)
}

// tryTool calls a tool. Those that read a run read the victim's.
func (w *hostileWorld) tryTool(a *hostileAttempt, tool string) {
	w.Helper()
	plain := map[string]any{"execution_id": w.victimRun}
	switch tool {
	case "execute_code", "execute_code_async":
		plain = map[string]any{
			"command": w.probe, "session": "hostile", "env": map[string]string{"MARK": w.mark},
			"timeout_seconds": 20,
		}
		switch a.name {
		case "argv":
			delete(plain, "command")
		case "code", "language", "interpreter":
			delete(plain, "command")
			plain["code"], plain["language"] = w.probe, "bash"
		}
	case "list_executions":
		plain = map[string]any{}
	case "search_execution_output":
		plain["pattern"] = "."
	}
	text, err := json.Marshal(plain)
	check(w.T, err)
	var headers []string
	arguments := string(text)
	if a.where == "header" {
		headers = append(headers, a.name+": "+url.PathEscape(plainText(a.value.raw)))
	} else {
		arguments = w.argument(a, arguments)
	}
	status, answer := w.tool(tool, arguments, headers...)
	w.answered(a, status, answer)
}

// argument puts the value of an attempt into the arguments of a tool.
func (w *hostileWorld) argument(a *hostileAttempt, arguments string) string {
	var object map[string]json.RawMessage
	check(w.T, json.Unmarshal([]byte(arguments), &object))
	raw := a.value.raw
	switch {
	case a.kind == anEnvironment:
		raw = `{"MARK":"` + w.mark + `",` + raw + `}`
	case a.of == "array":
		raw = "[" + raw + "]"
	case a.of == "object":
		raw = `{"X":` + raw + `}`
	}
	delete(object, a.name)
	text, err := json.Marshal(object)
	check(w.T, err)
	name, err := json.Marshal(a.name)
	check(w.T, err)
	if len(object) == 0 {
		return "{" + string(name) + ":" + raw + "}"
	}
	return "{" + string(name) + ":" + raw + "," + string(text[1:])
}

// race tries a link and a directory that change places all the time.
func (w *hostileWorld) race() {
	w.Helper()
	stop := make(chan struct{})
	var flipper sync.WaitGroup
	flipper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, w.mine+"/flip", unix.AT_FDCWD, w.mine+"/benign", unix.RENAME_EXCHANGE)
			}
		}
	})
	flip := quoted(w.mine + "/flip")[0]
	for _, m := range []memberOf{
		{"POST /v1/executions", "body", "cwd", "string", aPath},
		{"POST /v1/executions", "body", "access.writable", "array", aPath},
		{"POST /v1/executions", "body", "access.readable", "array", aPath},
		{"POST /v1/executions", "body", "access.hidden", "array", aPath},
		{"POST /v1/interpreters", "body", "cwd", "string", aPath},
		{"GET /v1/files/content", "query", "path", "string", aRootPath},
	} {
		for _, level := range w.levels {
			if level == "none" {
				continue
			}
			for range 3 {
				value := flip
				if m.kind == aRootPath {
					value = quoted("work/flip/token")[0]
				}
				w.try(&hostileAttempt{m, hostileValue{"a link that changes", value.raw}, level})
			}
		}
	}
	close(stop)
	flipper.Wait()
}

// besideMovedParent tries to look where the data directory was, and where it is, after the directory above it was
// renamed, and somebody has put another one into its place.
func (w *hostileWorld) besideMovedParent() {
	w.Helper()
	moved := w.base + "/moved"
	check(w.T, os.Rename(w.above, moved))
	check(w.T, os.MkdirAll(w.data, 0o700))
	check(w.T, os.Chown(w.above, w.uid, w.uid))
	check(w.T, os.Chown(w.data, w.uid, w.uid))
	cwd := memberOf{"POST /v1/executions", "body", "cwd", "string", aPath}
	for _, level := range w.levels {
		for _, dir := range []string{w.base, moved, moved + "/data", w.data, w.mine} {
			if level != "none" {
				w.try(&hostileAttempt{cwd, hostileValue{
					quoted(dir)[0].name + " after its parent was renamed",
					quoted(dir)[0].raw,
				}, level})
			}
		}
	}
	check(w.T, os.RemoveAll(w.above))
	check(w.T, os.Rename(moved, w.above))
}
