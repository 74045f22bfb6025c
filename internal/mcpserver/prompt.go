package mcpserver

import (
	"path"
	"slices"
	"strings"
)

// prompts are programs that show a prompt, read a line and answer it if they run in a terminal. On pipes some show the
// prompt before the answer, and some read all input before they run any of it.
var prompts = map[string]bool{
	"python": true, "ipython": true, "pypy": true, "node": true, "deno": true, "irb": true, "ghci": true, "julia": true,
	"R": true, "lua": true, "php": true, "iex": true, "erl": true, "scala": true, "bash": true, "sh": true, "zsh": true,
}

// reading are the flags with which these programs run something else than what they read, or which take a value.
var reading = []string{"-c", "-e", "-m", "-p", "-r", "-f", "--eval", "--print", "--version", "--help", "-s"}

const promptHint = "[it shows a prompt only in a terminal: start it with tty, or use execute_code with interpreter, which " +
	"remembers variables]"

// hint says how a program with a prompt is better started than on pipes, or is "".
func (in *startInput) hint() string {
	if !in.StdinOpen || in.TTY || in.Code != "" {
		return ""
	}
	words := in.Argv
	if in.Command != "" {
		words = strings.Fields(in.Command)
	}
	if len(words) == 0 {
		return ""
	}
	name := strings.TrimRight(path.Base(words[0]), "0123456789.")
	for _, flag := range words[1:] {
		if !strings.HasPrefix(flag, "-") || slices.Contains(reading, flag) {
			return ""
		}
	}
	shell := name == "bash" || name == "sh" || name == "zsh" // which answer line by line without a prompt
	if !prompts[name] || shell && !slices.Contains(words[1:], "-i") {
		return ""
	}
	return "\n" + promptHint
}
