package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The suite of hostile requests: every member of each request that starts something or names something outside of the
// store, with every value of its kind, to a real server with real commands, at each level of isolation, as root and as
// another user. What is started looks from inside for what it may not see, which has the word "canary" in it.
// Afterwards
// the suite looks from outside whether the server answers, whether anything is left, and whether anything was changed.
//
// The gate tries a part of all values of all members, each in one of the settings. With REPRISE_TEST_SOAK each is
// tried in
// all of them.

// hostileSetting is how a server is configured.
type hostileSetting struct {
	name   string
	root   bool // the server runs as root
	args   []string
	levels []string
	// confined: there is a least level, so that commands see nothing of others.
	confined bool
}

var hostileSettings = []hostileSetting{
	{name: "root", root: true, levels: []string{"limits", "landlock", "bubblewrap", "none"}},
	{
		name: "root and a user for each tenant", root: true, levels: []string{"landlock", "bubblewrap", "", "limits"},
		confined: true,
		args:     []string{"--least-isolation", "landlock", "--run-as-range", "1900000000:100"},
	},
	{
		name: "root and the least level bubblewrap", root: true, levels: []string{"bubblewrap", "", "landlock"},
		confined: true,
		args:     []string{"--least-isolation", "bubblewrap", "--shared-user"},
	},
	{name: "user", levels: []string{"limits", "landlock", "bubblewrap", "none"}},
	{
		name: "user and the least level landlock", levels: []string{"landlock", "bubblewrap", "", "none"},
		confined: true,
		args:     []string{"--least-isolation", "landlock", "--shared-user"},
	},
}

// ordinary is the user of a server that is not root.
const ordinary = 65534

// hostileWorld is a server with what two tenants have, and where it is.
type hostileWorld struct {
	*testing.T
	hostileSetting
	server *daemon
	uid    int

	// base holds everything: above holds data, the data directory.
	base, above, data, archive, secrets string
	// mine is where the attacker's commands work, victimDir where those of the victim do.
	mine, victimDir string

	token, key, victimKey, victimTenant, victimRun string
	victimPid                                      int

	probe string
	mark  string // is in the environment of all that the attacker starts
}

func TestHostileRequests(t *testing.T) {
	members := append(documentedMembers(t), memberOf{
		"tool execute_code", "header", "Reprise-Directory", "string",
		aPath,
	})
	if t.Failed() {
		return
	}
	settings := hostileSettings
	if os.Geteuid() != 0 {
		settings = slices.DeleteFunc(slices.Clone(settings), func(s hostileSetting) bool { return s.root })
	}
	var mu sync.Mutex
	tried := 0
	t.Run("settings", func(t *testing.T) {
		for i, s := range settings {
			t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
				w := newHostileWorld(t, s)
				before := w.snapshot()
				attempts := w.attempts(append(slices.Clone(members), w.toolMembers()...), i, len(settings))
				goroutines := w.goroutines()
				w.tryAll(attempts)
				w.race()
				w.besideMovedParent()
				w.outside(before, goroutines)
				mu.Lock()
				tried += len(attempts)
				mu.Unlock()
			})
		}
	})
	if t.Logf("%d combinations", tried); tried < 500 {
		t.Errorf("only %d combinations were tried", tried)
	}
}

// newHostileWorld starts a server with a victim.
func newHostileWorld(t *testing.T, s hostileSetting) *hostileWorld {
	t.Helper()
	base, err := os.MkdirTemp("", "hostile-*") // of which each directory above can be entered
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	w := &hostileWorld{
		T: t, hostileSetting: s, uid: os.Geteuid(), base: base, above: base + "/srv", data: base + "/srv/data",
		archive: base + "/archive", secrets: base + "/secrets", mine: base + "/work/acme", victimDir: base +
			"/work/globex",
		token: "canary-token-0123456789abcdef", victimTenant: "globex", mark: "HOSTILE_" + filepath.Base(base),
	}
	if !s.root && w.uid == 0 {
		w.uid = ordinary
	}
	for _, dir := range []string{w.data, w.archive, w.secrets + "/named/globex", w.mine, w.victimDir} {
		check(t, os.MkdirAll(dir, 0o700))
	}
	for path, text := range map[string]string{
		w.secrets + "/token": w.token, w.data + "/note": "canary-data", w.archive + "/note": "canary-archive",
		w.secrets + "/named/globex/named": "canary-named", w.victimDir + "/private": "canary-private",
	} {
		check(t, os.WriteFile(path, []byte(text), 0o600))
	}
	w.arm(w.mine)
	w.give(w.uid, base)
	check(t, os.Chmod(base, 0o711))
	check(t, os.Chmod(base+"/work", 0o711))
	w.start()
	w.populate()
	w.probe = w.script()
	w.findsAll()
	return w
}

// findsAll checks that the script finds what it looks for where nothing keeps it from that.
func (w *hostileWorld) findsAll() {
	w.Helper()
	var missing []string
	if !eventually(func() bool { // the output of the victim's command is stored beside
		cmd := exec.Command("sh", "-c", w.probe)
		cmd.Dir = w.mine
		out, err := cmd.Output()
		check(w.T, err)
		missing = slices.DeleteFunc([]string{
			"token", "data", "named", "archive", "private", "environment", "run", "event", "output", "socket",
			"written",
		}, func(seen string) bool { return strings.Contains(string(out), "canary-"+seen) })
		return len(missing) == 0
	}) {
		w.Errorf("the suite does not see %q where nothing hides it", missing)
	}
}

// give makes a directory and all below it those of a user.
func (w *hostileWorld) give(uid int, dir string) {
	w.Helper()
	check(w.T, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	}))
}

// start starts the server as its user.
func (w *hostileWorld) start() {
	w.Helper()
	program := filepath.Join(w.base, "reprise")
	us, err := os.ReadFile("/proc/self/exe")
	check(w.T, err)
	check(w.T, os.WriteFile(program, us, 0o755))
	args := []string{
		"reprise", "serve", "--listen", "127.0.0.1:0", "--data", w.data, "--secrets", w.secrets, "--archive", "file:" +
			w.archive,
		"--files", "work=" + w.mine, "--readable", program, "--max-timeout", "10m",
	}
	if w.root { // the log is in one file of 64 MiB, which is much to look through in each attempt
		args = append(args, "--store", "sqlite:")
	}
	if w.confined {
		args = append(args, "--writable", "acme="+w.mine, "--writable", "globex="+w.victimDir)
	}
	spec := &daemonSpec{
		path: program, dir: w.above, log: w.base + "/log", args: append(args, w.args...),
		env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + w.above, "CANARY=canary-environment"},
	}
	if os.Geteuid() != w.uid {
		spec.user = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}
	}
	w.server, err = startProgram(spec)
	check(w.T, err)
	w.Cleanup(func() { _ = w.server.kill() })
	if slices.Contains(w.args, "--run-as-range") { // in the order of the names of the tenants
		w.give(1900000000, w.mine)
		w.give(1900000001, w.victimDir)
	}
}

// populate makes the keys, and what the victim has.
func (w *hostileWorld) populate() {
	w.Helper()
	w.key = w.newKey("attacker", "acme")
	w.victimKey = w.token
	if w.confined {
		w.victimKey = w.newKey("canary-key", "globex")
	} else {
		w.victimTenant = "default"
	}
	w.must(w.victimKey, "PUT", "/v1/streams/private", `{}`)
	w.must(w.victimKey, "POST", "/v1/streams/private/events", `{"type":"note","data":"canary-event"}`)
	run := w.must(w.victimKey, "POST", "/v1/executions",
		`{"command":"echo canary-output; exec sleep 1000","cwd":"`+w.victimDir+`","session":"private",`+
			`"env":{"CANARY":"canary-run","OF":"`+w.base+`"}}`)
	w.victimRun = memberText(w.T, run, "id")
	w.Cleanup(func() { // a server that is killed leaves it
		w.send(w.victimKey, "DELETE", "/v1/executions/"+w.victimRun, "")
		if !eventually(func() bool { return len(processesWith("OF="+w.base)) == 0 }) {
			w.Errorf("the processes %d are left", processesWith("OF="+w.base))
		}
	})
	if !eventually(func() bool {
		pids := processesWith("OF=" + w.base)
		if len(pids) > 0 {
			w.victimPid = pids[0]
		}
		return len(pids) > 0
	}) {
		w.Fatal("the victim's command does not run")
	}
}

func (w *hostileWorld) newKey(name, tenant string) string {
	w.Helper()
	return memberText(w.T, w.must(w.token, "POST", "/v1/keys",
		`{"name":"`+name+`","tenant":"`+tenant+`","scopes":["run","read","control","publish"]}`), "key")
}

func memberText(t *testing.T, text, name string) string {
	t.Helper()
	var object map[string]any
	check(t, json.Unmarshal([]byte(text), &object))
	value, _ := object[name].(string)
	if value == "" {
		t.Fatalf("no %s in %s", name, text)
	}
	return value
}

// arm puts into a directory what leads elsewhere, or runs in somebody else's program, unless it is there.
func (w *hostileWorld) arm(dir string) {
	w.Helper()
	for name, target := range map[string]string{
		"l-data": w.data, "l-above": w.above, "l-root": "/", "l-self": "/proc/self/root", "l-victim": w.victimDir,
		"l-archive": w.archive, "l-token": w.secrets + "/token", "chain": "l-above/data", "round": "round", "loop": ".",
		"flip": w.secrets,
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			w.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		w.Fatal(err)
	}
	check(w.T, os.MkdirAll(filepath.Join(dir, "benign"), 0o700))
	if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
		_ = unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "socket")})
		_ = unix.Close(fd)
	}
	shell := "cat " + w.data + "/note " + w.secrets + "/token " + w.archive + "/note\n"
	for name, text := range map[string]string{
		"file": "a file", "evil.sh": "#!/bin/sh\n" + shell, "sh": "#!/bin/sh\n" + shell,
		"evil.js": "try { console.log(require('fs').readFileSync('" + w.secrets +
			"/token', 'utf8')) } catch {}",
		"sitecustomize.py": "import os\nos.system('" + strings.TrimSpace(shell) + "')\n",
		"evil.py":          "import os\nos.system('" + strings.TrimSpace(shell) + "')\n", "evil.pm": "system(q(" +
			strings.TrimSpace(shell) + ")); 1;",
	} {
		check(w.T, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	if _, err := os.Stat(filepath.Join(dir, "evil.so")); err != nil {
		w.compile(filepath.Join(dir, "evil.so"), shell)
	}
}

// compile makes a library that runs a script in each program that loads it.
func (w *hostileWorld) compile(path, script string) {
	w.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		w.Log("no library is preloaded: ", err)
		return
	}
	source := `#include <stdlib.h>
__attribute__((constructor)) static void look(void) { unsetenv("LD_PRELOAD"); unsetenv("LD_AUDIT"); if (system(` + quoted(script)[0].raw + `)) return; }
`
	cmd := exec.Command(cc, "-shared", "-fPIC", "-o", path, "-x", "c", "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
}

// script returns what looks from inside. It does not have the words that it looks for, which would be in what is told
// of the run. What it writes to is the test's.
func (w *hostileWorld) script() string {
	pid, victim := strconv.Itoa(w.server.cmd.Process.Pid), strconv.Itoa(w.victimPid)
	var files []string
	for _, root := range []string{
		"", "/proc/self/root", "/proc/1/root", "/proc/" + pid + "/root", w.mine + "/l-root",
		w.mine + "/l-self",
	} {
		files = append(files, root+w.secrets+"/token", root+w.data+"/note")
	}
	files = append(files, w.secrets+"/keys", w.secrets+"/named/*/*", w.data+"/*", w.data+"/log/*", w.data+"/runs/*/*",
		w.data+"/runs/*/*/*", w.archive+"/*",
		w.victimDir+"/private", "/proc/"+pid+"/environ", "/proc/"+pid+"/cwd/data/note", "/proc/"+victim+"/environ",
		"/proc/"+victim+"/cwd/private", "/proc/"+victim+"/root"+w.victimDir+"/private", w.base+"/moved/data/note",
		"l-*/token", "l-*/note", "l-*/private", "token", "note", "private", "*/token", "*/note", "*/private",
		"*/data/note", "/proc/self/fd/*")
	return "/usr/bin/grep -aohsDskip -dskip 'canar[y]-[a-z]*' " + strings.Join(files, " ") +
		"; for f in " + w.data + "/*.sock; do [ -S $f ] && echo 'canar''y-socket'; done" +
		"; for f in " + w.data + "/note " + w.secrets + "/token " + w.archive + "/note " + w.victimDir +
		"/private; do" +
		" [ -e $f ] && printf '\\nx' >>$f && echo 'canar''y-written'; done 2>/dev/null" +
		"; for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/mm/transparent_hugepage/enabled; do" +
		" [ -w $f ] && [ $(id -u) = 0 ] && : 2>/dev/null >>$f && echo 'canar''y-kernel'; done; echo looked"
}

// allowed are the canaries that may be seen at a level: where no least level is set, the commands are the user's own,
// and are kept only from what the server has.
func (w *hostileWorld) allowed(level string) []string {
	switch {
	case w.confined:
		return nil
	case level == "none":
		return []string{""}
	}
	return []string{"private", "written"}
}

var canary = regexp.MustCompile(`canary-[a-z]+`)

// sees reports the canaries in what was answered, as a failure of the attempt.
func (w *hostileWorld) sees(what, level, answer string) {
	w.Helper()
	for _, word := range canary.FindAllString(answer, -1) {
		seen := strings.TrimPrefix(word, "canary-")
		if !slices.ContainsFunc(w.allowed(level), func(s string) bool { return s == "" || s == seen }) {
			w.Errorf("%s: %s is seen", what, seen)
			return
		}
	}
}

// must sends a request that succeeds and returns its answer.
func (w *hostileWorld) must(key, method, path, body string) string {
	w.Helper()
	status, text := w.send(key, method, path, body)
	if status >= 300 {
		w.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

// send sends a request. The status is 0 if there is no answer.
func (w *hostileWorld) send(key, method, path, body string, headers ...string) (status int, text string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // the test may have ended
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.server.addr+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(path, "/v1/files/content") {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(answer)
}

// tool sends a call of a tool, with arguments as JSON.
func (w *hostileWorld) tool(name, arguments string, headers ...string) (status int, text string) {
	w.Helper()
	method, params := "tools/call", `"name":"`+name+`","arguments":`+arguments+`,`
	if name == "" {
		method, params = "tools/list", ""
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":` +
		`"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"h","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	return w.send(w.key, "POST", "/mcp", body, append(headers, "Accept: application/json, text/event-stream",
		"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: "+method, "Mcp-Name: "+name)...)
}

// toolMembers are the members of the arguments of all tools.
func (w *hostileWorld) toolMembers() (members []memberOf) {
	w.Helper()
	status, text := w.tool("", "")
	var list struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema schemaNode
			}
		}
	}
	check(w.T, json.Unmarshal([]byte(text), &list))
	if status != 200 || len(list.Result.Tools) < 7 {
		w.Fatalf("the tools are %d %s", status, text)
	}
	for _, tool := range list.Result.Tools {
		properties := tool.InputSchema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			of, _ := properties[name].(map[string]any)["type"].(string)
			if types, several := properties[name].(map[string]any)["type"].([]any); several {
				of = fmt.Sprint(types[len(types)-1])
			}
			operation := "tool " + tool.Name
			members = append(members, memberOf{operation, "argument", name, of, kindOf(w.T, operation, name)})
		}
	}
	return members
}

// outside looks whether the server is as it was, and nothing is left.
func (w *hostileWorld) outside(before map[string]string, goroutines int) {
	w.Helper()
	w.sees("the log of the server", "", strings.ReplaceAll(w.log(), "canary-key", ""))
	text := w.must(w.key, "POST", "/v1/executions", `{"command":"echo still here","timeout":"5m"}`)
	if _, out := w.send(w.key, "GET", "/v1/executions/"+memberText(w.T, text, "id")+"/stdout?follow=true",
		""); out != "still here\n" {
		w.Errorf("afterwards a command writes %q", out)
	}
	if got := w.must(w.victimKey, "GET", "/v1/executions/"+w.victimRun, ""); memberText(w.T, got,
		"status") != "running" {
		w.Errorf("the victim's command is %s", got)
	}
	after := w.snapshot()
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if before[path] != after[path] {
			w.Errorf("%s was %q and is %q", path, before[path], after[path])
		}
	}
	if !eventually(func() bool { return len(processesWith(w.mark)) == 0 }) {
		w.Errorf("processes %d are left", processesWith(w.mark))
	}
	http.DefaultClient.CloseIdleConnections()
	if !eventually(func() bool { return w.goroutines() <= goroutines+8 }) {
		w.Errorf("%d goroutines before, %d afterwards", goroutines, w.goroutines())
	}
}

func (w *hostileWorld) log() string {
	text, err := os.ReadFile(w.base + "/log")
	check(w.T, err)
	return string(text)
}

// snapshot is what the boundary consists of: names, modes and contents of all that only the server, or the victim, may
// change.
func (w *hostileWorld) snapshot() map[string]string {
	w.Helper()
	files := map[string]string{}
	for _, dir := range []string{w.secrets, w.archive, w.victimDir, w.data + "/note"} {
		check(w.T, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			files[path] = fmt.Sprint(info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
			if info.Mode().IsRegular() && !w.allows(path) {
				text, err := os.ReadFile(path)
				files[path] += " " + string(text)
				return err
			}
			return nil
		}))
	}
	return files
}

// allows reports whether commands of the attacker may write to a file.
func (w *hostileWorld) allows(path string) bool {
	return !w.confined && strings.HasPrefix(path, w.victimDir)
}

// goroutines is the number of them in the server.
func (w *hostileWorld) goroutines() int {
	w.Helper()
	for line := range strings.Lines(w.must(w.token, "GET", "/metrics", "")) {
		if text, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			check(w.T, err)
			return n
		}
	}
	w.Fatal("no goroutines are told")
	return 0
}

// processesWith are the processes with a text in their environment.
func processesWith(text string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		if environ, err := os.ReadFile(name); err == nil && bytes.Contains(environ, []byte(text)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// query is a parameter of a query for a hostile value.
func query(name, raw string) string { return url.Values{name: {plainText(raw)}}.Encode() }

// plainText is the text of a hostile value where there is no JSON.
func plainText(raw string) string {
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil {
		return raw
	}
	return text
}
