package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"reprise/internal/api"
)

// kind says what a member of a request holds, and so which hostile values are tried in it.
type kind int

const (
	aPath     kind = iota + 1
	aRootPath      // a path below a root of --files
	aProgram       // the arguments of a program
	aScript        // text that is run
	aPattern       // a pattern of names
	anExpression
	anEnvironment
	aName
	aNumber
	aDuration
	aWord  // one of a few
	aTruth // a boolean
	aText  // what the server only hands on
)

// memberKinds are the kinds of the members of requests, by their names. An operation or a tool that has a member that
// is not here fails TestHostileRequests: say here what it holds, or give it a kind of its own with values.
var memberKinds = map[string]kind{
	// of starts, interpreters and schedules
	"cwd": aPath, "writable": aPath, "readable": aPath, "hidden": aPath,
	"argv": aProgram, "command": aScript, "shell": aPath, "code": aScript, "artifacts": aPattern, "env": anEnvironment,
	"id": aName, "key": aName, "session": aName, "language": aName, "interpreter": aName, "secrets": aName,
	"labels": aName, "user": aName, "zone": aName, "cron": anExpression,
	"cols": aNumber, "rows": aNumber, "output_bytes": aNumber, "memory_bytes": aNumber, "processes": aNumber,
	"max_events": aNumber, "max_bytes": aNumber,
	"cpu_time": aDuration, "timeout": aDuration, "grace": aDuration, "max_age": aDuration, "max_idle": aDuration,
	"max_age_each": aDuration, "idle_timeout": aDuration, "retention": anEnvironment,
	"isolation": aWord, "network": aWord, "overlap": aWord, "missed": aWord,
	"clear": aTruth, "mask_secrets": aTruth, "stdin_open": aTruth, "kill_on_disconnect": aTruth,
	"stdin": aText, "stdin_base64": aText,
	// of webhooks, and of files and watches
	"url": aPath, "source": aWord, "stream": aName, "prefix": aName, "types": aName, "secret": aText,
	"path": aRootPath, "from": aRootPath, "to": aRootPath, "mode": aNumber, "name": anExpression,
	"parents": aTruth, "overwrite": aTruth, "recursive": aTruth, "checksum": aTruth, "size": aNumber, "sha256": aName,
	// of the tools
	"execution_id": aName, "idempotency_key": aName, "last_event_id": aName, "text": aText, "base64": aText,
	"match": aText, "pattern": anExpression, "until": aWord, "events": aTruth, "tty": aTruth, "wait": aNumber,
	"quiet": aTruth, "around": aNumber,
	"wait_seconds": aNumber, "timeout_seconds": aNumber,
	// of queries, paths and headers
	"status": aWord, "label": aName, "limit": aNumber, "cursor": aName, "after": aName, "gap": aWord, "cursors": aWord,
	"ticket": aName, "offset": aNumber, "follow": aTruth, "seq": aNumber, "writer": aName, "eof": aTruth,
	"hold": aDuration, "signal": aName,
	"Idempotency-Key": aName, "Last-Event-ID": aName, "Execution-Receipts": aWord, "Execution-Hold": aName,
	"traceparent": aName, "tracestate": aName, "Range": aNumber, "If-Range": aName, "If-None-Match": aName,
	"Reprise-Directory": aPath,
}

// memberOf is a member of a request: where it is, its name with those of the objects that it is in, and its kind.
type memberOf struct {
	operation, where, name, of string // of is "array", "object" or another type of JSON
	kind                       kind
}

func (m memberOf) String() string { return m.operation + ": " + m.where + " " + m.name }

// kindOf is the kind of a member of this name.
func kindOf(t *testing.T, operation, name string) kind {
	t.Helper()
	last := name[strings.LastIndexByte(name, '.')+1:]
	of, known := memberKinds[last]
	if !known {
		t.Errorf("%s has the member %s, of which memberKinds says nothing", operation, name)
	}
	if operation == "POST /v1/executions/{id}/artifacts/{path}" && last == "path" {
		return aPattern
	}
	return of
}

// hostileOperations are those of openapi.yaml whose requests the suite tries: all that start, or name something outside
// of the store.
var hostileOperations = []string{
	"/v1/executions", "/v1/interpreters", "/v1/schedules", "/v1/webhooks", "/v1/files",
}

// schemaNode is a part of openapi.yaml.
type schemaNode map[string]any

func (n schemaNode) in(root schemaNode) schemaNode {
	for {
		ref, ok := n["$ref"].(string)
		if !ok {
			return n
		}
		n = root
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			n = n[name].(schemaNode)
		}
	}
}

// documentedMembers are the members of the requests that openapi.yaml describes.
func documentedMembers(t *testing.T) (members []memberOf) {
	t.Helper()
	var root schemaNode
	check(t, yaml.Unmarshal(api.OpenAPI(), &root))
	paths := root["paths"].(schemaNode)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if !slices.ContainsFunc(hostileOperations, func(p string) bool {
			return path == p || strings.HasPrefix(path,
				p+"/")
		}) {
			continue
		}
		item := paths[path].(schemaNode)
		for _, method := range []string{"get", "put", "post", "patch", "delete"} {
			op, ok := item[method].(schemaNode)
			if !ok {
				continue
			}
			operation := strings.ToUpper(method) + " " + path
			for _, from := range []schemaNode{item, op} {
				parameters, _ := from["parameters"].([]any)
				for _, p := range parameters {
					p := p.(schemaNode).in(root)
					name := p["name"].(string)
					members = append(members, memberOf{operation, p["in"].(string), name, "string", kindOf(t, operation,
						name)})
				}
			}
			if body, ok := op["requestBody"].(schemaNode); ok {
				content := body.in(root)["content"].(schemaNode)
				if asJSON, ok := content["application/json"].(schemaNode); ok {
					members = append(members, membersIn(t, root, asJSON["schema"].(schemaNode), operation, "body",
						"")...)
				}
			}
		}
	}
	return members
}

// membersIn are the members of an object, and of the objects in it.
func membersIn(t *testing.T, root, schema schemaNode, operation, where, prefix string) (members []memberOf) {
	t.Helper()
	schema = schema.in(root)
	parts, _ := schema["allOf"].([]any)
	for _, part := range parts {
		members = append(members, membersIn(t, root, part.(schemaNode), operation, where, prefix)...)
	}
	properties, _ := schema["properties"].(schemaNode)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		member := properties[name].(schemaNode).in(root)
		if inner := membersIn(t, root, member, operation, where, prefix+name+"."); len(inner) > 0 {
			members = append(members, inner...)
			continue
		}
		of, _ := member["type"].(string)
		members = append(members, memberOf{operation, where, prefix + name, of, kindOf(t, operation, name)})
	}
	return members
}

// hostileValue is one that is tried, as JSON, under a name of it.
type hostileValue struct{ name, raw string }

func quoted(texts ...string) (values []hostileValue) {
	for _, text := range texts {
		raw, err := json.Marshal(text)
		if err != nil {
			panic(err)
		}
		name := fmt.Sprintf("%.60q", text)
		if len(text) > 60 {
			name += fmt.Sprintf(" (%d bytes)", len(text))
		}
		values = append(values, hostileValue{name, string(raw)})
	}
	return values
}

func rawValues(texts ...string) (values []hostileValue) {
	for _, text := range texts {
		values = append(values, hostileValue{text, text})
	}
	return values
}

// wrongTypes are values that no member takes.
var wrongTypes = rawValues("NaN", "Infinity", "null", "[[]]", "{}", "true", "1e400")

// hostileNumbers are too small, too large, or none.
var hostileNumbers = rawValues("-1", "0", fmt.Sprint(math.MaxInt64), "9223372036854775808", "-9223372036854775809",
	"1e308",
	"1.5", `"1"`, `"0x10"`)

var hostileDurations = append(quoted("", "-1s", "1ns", "100000h", "2562047h47m16.854775807s", "9999999h", "NaN", "1e9s",
	"soon", "\x00"),
	hostileNumbers[:4]...)

var hostileWords = quoted("", "none", "limits", "landlock", "bubblewrap", "root", "on", "off", "../", "\x00")

// names are of others, or none.
func (w *hostileWorld) names() []hostileValue {
	return quoted("", ".", "..", "../"+w.victimRun, w.victimRun, "execution:"+w.victimRun, "artifacts:"+w.victimRun,
		w.victimTenant, w.victimTenant+"/"+w.victimRun, "../"+w.victimTenant+"/named", "named", "x\x00y", "x\ny",
		"\u202e",
		"root", "0", "-1", strings.Repeat("n", 10_000), "%2e%2e%2f", "*", "$(id)", "'; cat "+w.data+"/token; '")
}

// paths lead to what the server has, around it, to what is no file, or nowhere.
func (w *hostileWorld) paths() []hostileValue {
	values := []string{
		"/", "/..", "//", "/.", "/proc", "/proc/self/root", "/proc/self/root" + w.data, "/proc/self/cwd",
		"/proc/1/root",
		fmt.Sprintf("/proc/%d/root", w.server.cmd.Process.Pid), fmt.Sprintf("/proc/%d/cwd", w.server.cmd.Process.Pid),
		"/proc/self/fd", "/proc/self/fd/3", "/proc/self/fd/9", "/proc/self/task/../root", "/dev", "/dev/fd/3", "/sys",
		"/sys/fs/cgroup",
		w.data, w.data + "/", w.data + "/token", w.data + "/runs", w.above, w.above + "/data/../data", w.base,
		w.archive, w.secrets,
		w.secrets + "/named", w.victimDir, "/etc", "/etc/shadow", "/root", "/tmp", "/run", "/usr/../" + w.data,
		"", ".", "..", "../..", "../../../../../../../../" + w.data, "~", "$HOME", "*", "x\x00y", w.mine + "/x\x00" +
			w.data,
		w.mine + "/missing", strings.Repeat("a", 5000), "/" + strings.Repeat("a/", 2500), w.mine, "file://" + w.data +
			"/token",
	}
	for _, name := range hostileNames {
		values = append(values, w.mine+"/"+name)
	}
	return quoted(append(values, w.mine+"/l-above/data", w.mine+"/l-root"+w.data, w.mine+"/loop/loop/../l-data")...)
}

// hostileNames are what links makes in a directory.
var hostileNames = []string{
	"l-data", "l-above", "l-root", "l-self", "l-victim", "l-archive", "l-token", "chain", "round", "loop", "fifo",
	"socket", "file",
}

// patterns of artifacts are paths too.
func (w *hostileWorld) patterns() []hostileValue {
	return append(w.paths(), quoted("*", "*/token", "*/*", "*/*/*/*/*/*/*/*/*/*", "loop/loop/loop/loop/*", "l-*/*", "[",
		"[^", "\\",
		strings.Repeat("*", 3000), strings.Repeat("*/", 500), "**/token", "l-data/token", "chain/token",
		"../../srv/data/token")...)
}

var hostileExpressions = quoted("", "*", strings.Repeat("*", 5000), "[", strings.Repeat("(a{0,500}){2}", 1),
	"(?:a{0,500}){2}b", "(a*)*b",
	strings.Repeat("(", 2000), "@every 1ns", "@every 0s", "@every -1s", "* * * * * *", "99 99 * * *",
	"../../etc/passwd", "\x00")

// rootPaths are paths of files, which begin with the name of a root.
func (w *hostileWorld) rootPaths() []hostileValue {
	values := w.paths()
	inside := []string{
		"work/..", "work/../", "work//", "work/../../srv/data/token", "work/./../x", "WORK", "other/x", "work\x00",
		"work/x\x00y",
		"work/" + w.data, "work/" + strings.Repeat("a/", 2500), "work/" + strings.Repeat("a", 300), "work/%2e%2e/x",
		"work/..\\x",
		"work/l-data/token", "work/l-above/data/token", "work/l-root" + w.data + "/token", "work/l-self" + w.data +
			"/token",
		"work/chain/token", "work/loop/loop/l-data/token", "work/l-victim/private", "work/fifo/x",
		"work/l-archive/note",
	}
	for _, name := range hostileNames {
		inside = append(inside, "work/"+name)
	}
	return append(values, quoted(inside...)...)
}

// environment are variables that let programs, linkers and our own processes do something else.
func (w *hostileWorld) environment() (values []hostileValue) {
	for _, v := range [][2]string{
		{"LD_PRELOAD", w.mine + "/evil.so"},
		{"LD_PRELOAD", w.data + "/token"},
		{"LD_AUDIT", w.mine + "/evil.so"},
		{"LD_LIBRARY_PATH", w.mine},
		{"LD_DEBUG", "all"},
		{"LD_DEBUG_OUTPUT", w.victimDir + "/debug"},
		{"GCONV_PATH", w.mine},
		{"BASH_ENV", w.mine + "/evil.sh"},
		{"ENV", w.mine + "/evil.sh"},
		{"SHELLOPTS", "xtrace"},
		{"PS4", "$(cat " + w.data + "/token)"},
		{"PYTHONSTARTUP", w.mine + "/evil.py"},
		{"PYTHONPATH", w.mine},
		{"PYTHONHOME", w.mine},
		{"PYTHONINSPECT", "1"},
		{"PERL5OPT", "-Mevil"},
		{"PERL5LIB", w.mine},
		{"NODE_OPTIONS", "--require=" + w.mine + "/evil.js"},
		{"RUBYOPT", "-r./evil"},
		{"GIT_DIR", w.data},
		{"GIT_EXEC_PATH", w.mine},
		{"GIT_SSH_COMMAND", "cat " + w.data + "/token"},
		{"GIT_CONFIG_GLOBAL", w.data + "/token"},
		{"PATH", w.mine},
		{"PATH", ""},
		{"PATH", w.data},
		{"PATH", w.mine + "/l-data:" + w.victimDir},
		{"PATH", "."},
		{"HOME", w.data},
		{"HOME", w.mine + "/l-data"},
		{"TMPDIR", w.data},
		{"TMPDIR", w.mine + "/l-data"},
		{"TMPDIR", "/"},
		{"XDG_RUNTIME_DIR", w.data},
		{"XDG_STATE_HOME", w.above},
		{"PWD", w.data},
		{"OLDPWD", w.data},
		{"IFS", "/"},
		{"REPRISE_DATA", w.data},
		{"REPRISE_LEAST_ISOLATION", "none"},
		{"REPRISE_TOKEN", "x"},
		{"GODEBUG", "execerrdot=0"},
		{"GOTRACEBACK", "crash"},
		{"GORACE", "log_path=" + w.victimDir + "/race"},
		{"GOCOVERDIR", w.victimDir},
		{"GOGC", "1"},
		{"LISTEN_FDS", "9"},
		{"NOTIFY_SOCKET", w.data + "/mcp.sock"},
		{"TRACEPARENT", w.data},
		{"LC_ALL", "../../" + w.data},
		{"TZ", ":" + w.data + "/token"},
		{"MALLOC_TRACE", w.victimDir + "/trace"},
		{"x=y", "1"},
		{"x\x00LD_PRELOAD", "1"},
		{"", "1"},
		{"X", "1\x00LD_PRELOAD=" + w.mine + "/evil.so"},
		{"X", strings.Repeat("x", 200_000)},
		{strings.Repeat("X", 50_000), "1"},
	} {
		name, text := quoted(v[0])[0], quoted(v[1])[0]
		values = append(values, hostileValue{name.name + "=" + text.name, name.raw + ":" + text.raw})
	}
	return values
}

// scripts are programs for a shell that try to look from elsewhere. What they would change if they succeeded does no
// harm: it is in the directory of the test.
func (w *hostileWorld) scripts() []hostileValue {
	pid := w.server.cmd.Process.Pid
	return quoted("umount -l "+w.data+"; "+w.probe, "unshare -Urm sh -c 'umount -l "+w.data+"'; "+w.probe,
		"unshare -Urm sh -c 'cat "+w.data+"/token'", fmt.Sprintf("nsenter -t %d -m cat %s/token", pid, w.data),
		fmt.Sprintf("nsenter -t %d -U -m -p cat %s/token", pid, w.data), "chroot /proc/1/root cat "+w.data+"/token",
		fmt.Sprintf("chroot /proc/%d/root cat %s/token", pid, w.data),
		"cd /proc/self/fd; for f in *; do cat $f/token $f/data/token; done",
		fmt.Sprintf("cat /proc/%d/environ /proc/%d/cmdline", pid, pid), fmt.Sprintf("cat /proc/%d/environ",
			w.victimPid),
		fmt.Sprintf("cat /proc/%d/root%s/private /proc/%d/cwd/private", w.victimPid, w.victimDir, w.victimPid),
		"ln "+w.data+"/token hard; cat hard; rm -f hard", "mount --bind "+w.data+" "+w.mine+"; cat "+w.mine+"/token",
		"mount -t proc proc "+w.mine+" && cat /proc/self/mountinfo",
		"find "+w.base+" -type f ! -name reprise -exec cat {} +",
		"cp -r "+w.above+" copied; cat copied/*/*; rm -rf copied",
		fmt.Sprintf("kill -STOP %d; kill -CONT %d", w.victimPid, w.victimPid),
		fmt.Sprintf("prlimit --pid %d --nofile=0", pid),
		"exec 3<"+w.mine+"/l-data; cat /proc/self/fd/3/token", "(setsid sleep 0.01 &) ; "+w.probe, "exit 0")
}

// programs are arguments: a program, and what it runs.
func (w *hostileWorld) programs() (values []hostileValue) {
	for _, path := range append(w.paths(), quoted("sh", "/proc/self/exe", "/proc/self/root/bin/sh", "/bin/../bin/sh",
		"./evil.sh",
		w.mine+"/evil.sh", "/lib64/ld-linux-x86-64.so.2", "sh\x00")...) {
		values = append(values, hostileValue{path.name, path.raw + `,"-c",` + quoted(w.probe)[0].raw})
	}
	return values
}

// values are what is tried in a member of a kind.
func (w *hostileWorld) values(k kind) []hostileValue {
	long := quoted(strings.Repeat("x", 100_000), "\x00", "")
	switch k {
	case aPath:
		return w.paths()
	case aRootPath:
		return w.rootPaths()
	case aProgram:
		return w.programs()
	case aScript:
		return w.scripts()
	case aPattern:
		return w.patterns()
	case anExpression:
		return append(hostileExpressions, wrongTypes[0])
	case anEnvironment:
		return w.environment()
	case aName:
		return append(w.names(), wrongTypes[:3]...)
	case aNumber:
		return append(hostileNumbers, wrongTypes...)
	case aDuration:
		return append(hostileDurations, wrongTypes...)
	case aWord:
		return append(hostileWords, wrongTypes[0])
	case aTruth:
		return append(rawValues("true", "1", `"true"`, "NaN"), long[1])
	case aText:
		return long
	}
	return nil
}
