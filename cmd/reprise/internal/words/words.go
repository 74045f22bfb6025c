// Package words has the words of other programs for what this one does.
package words

// Verbs are words of other programs for what a verb does here.
var Verbs = map[string]string{
	"exec": "run", "start": "run", "spawn": "run", "sh": "run", "shell": "run", "bash": "run", "ssh": "run",
	"status": "show", "inspect": "show", "get": "show", "describe": "show", "info": "show",
	"tail": "follow", "subscribe": "follow", "stream": "follow",
	"cat": "logs", "output": "logs",
	"kill": "cancel", "stop": "cancel", "terminate": "cancel", "abort": "cancel",
	"ls": "list", "jobs": "list", "executions": "list", "runs": "list", "top": "list", "streams": "list",
	"delete": "remove", "del": "remove", "stdin": "input", "write": "input",
	"send": "publish", "emit": "publish", "push": "publish", "produce": "publish", "append": "publish",
	"copy": "cp", "scp": "cp", "upload": "cp", "download": "cp",
	"server": "serve", "daemon": "serve", "up": "serve", "shutdown": "drain", "down": "drain",
	"settings": "config", "env": "config", "check": "doctor", "dump": "backup",
	"cron": "schedule", "hook": "webhook", "hooks": "webhook",
	"token": "secrets", "apikey": "key", "keys": "key", "usage": "quota", "limits": "quota",
	"python": "interpreter", "repl": "interpreter", "autocomplete": "completion",
}

// Flags are flags of other programs for flags here. The first one that the verb has is meant.
var Flags = map[string][]string{
	"port": {"listen"}, "host": {"listen", "url"}, "bind": {"listen"}, "addr": {"listen", "url"},
	"address": {"listen", "url"}, "server": {"url"}, "endpoint": {"url"},
	"dir": {"cwd", "data"}, "workdir": {"cwd"}, "directory": {"cwd", "data"}, "data-dir": {"data"},
	"background": {"detach"}, "detached": {"detach"}, "interactive": {"stdin"}, "terminal": {"tty"},
	"name": {"id"}, "token": {"token-file"}, "password": {"token-file"}, "api-key": {"token-file"},
	"verbose": {"log-level"}, "debug": {"log-level"}, "database": {"store"}, "db": {"store"},
	"since": {"after"}, "from": {"after"}, "offset": {"after"}, "count": {"limit"}, "max": {"limit"},
	"memory": {"limits", "limit-command"}, "cpu": {"limits", "limit-command"}, "user": {"run-as"},
	"parse": {"content-type"}, "all": {"limit"}, "format": {"json"}, "output": {"json"}, "last": {"limit"},
}
