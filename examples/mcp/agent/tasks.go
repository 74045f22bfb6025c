package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// buildScript is a build that says something each second, in colors, and ends with a test that fails.
const buildScript = `i=0
while [ $i -lt %d ]; do
  i=$((i+1))
  printf '\033[32m[%%d/%d]\033[0m compiling module_%%d\n' $i $i
  sleep 1
done
echo 'FAIL: module_7: want 4, got 5' >&2
exit 1
`

// build waits for a long build, and is to be shown its end.
func (h *host) build(long time.Duration) error {
	w, err := h.open("model")
	if err != nil {
		return err
	}
	seconds := int(long / time.Second)
	command := fmt.Sprintf(buildScript, seconds, seconds)
	if h.before {
		return w.untilEnd(command, map[string]any{"wait": 60})
	}
	a, err := w.call("execute_code", map[string]any{"command": command, "wait_seconds": 50, "max_bytes": 1000})
	for err == nil && !a.over() {
		a, err = w.call("get_execution_output", map[string]any{
			"execution_id": a.facts.ID, "cursor": a.facts.Cursor, "until": "end", "wait": 50, "max_bytes": 1000,
		})
	}
	if err == nil && !strings.Contains(a.text, "FAIL: module_7") {
		err = errors.New("the end of the build was not shown")
	}
	return err
}

// noisyScript is a build that writes 5 kB each second, and has an error in the middle of its output.
const noisyScript = `for i in $(seq %d); do
  for j in $(seq 70); do echo "cc -O2 -Wall -Wextra -c src/module_$i/part_$j.c -o obj/module_$i/part_$j.o"; done
  if [ $i = 2 ]; then echo "src/module_2/part_70.c:12:5: error: unknown type name 'uint'" >&2; fi
  sleep 1
done
echo 'make: *** [Makefile:7: all] Error 1' >&2
exit 2
`

// noisy waits for a build that writes much, and then looks for the error.
func (h *host) noisy(long time.Duration) error {
	w, err := h.open("model")
	if err != nil {
		return err
	}
	long = min(long, 90*time.Second)
	command := fmt.Sprintf(noisyScript, int(long/time.Second))
	if h.before {
		return w.untilEnd(command, map[string]any{"wait": 60})
	}
	wait := min(long.Seconds()/2, 50)
	a, err := w.call("execute_code", map[string]any{"command": command, "wait_seconds": wait, "quiet": true})
	for err == nil && !a.over() {
		a, err = w.call("get_execution_output", map[string]any{
			"execution_id": a.facts.ID, "cursor": a.facts.Cursor, "quiet": true, "wait": 50,
		})
	}
	if err != nil {
		return err
	}
	a, err = w.call("search_execution_output",
		map[string]any{"execution_id": a.facts.ID, "pattern": `error:|\bError\b`})
	if err == nil && !strings.Contains(a.text, "> src/module_2/part_70.c:12:5: error: ") {
		err = errors.New("the error was not found")
	}
	return err
}

// untilEnd starts a command, and reads its output until the end.
func (w *window) untilEnd(command string, more map[string]any) error {
	a, err := w.call("execute_code_async", map[string]any{"command": command})
	if err != nil {
		return err
	}
	id, cursor := a.facts.ID, a.facts.Cursor
	for !a.over() {
		arguments := map[string]any{"execution_id": id, "cursor": cursor}
		maps.Copy(arguments, more)
		if a, err = w.call("get_execution_output", arguments); err != nil {
			return err
		}
		cursor = a.facts.Cursor
	}
	return nil
}

// debugged is a program with a mistake in it.
const debugged = `def total(prices):
    sum = 0
    for price in prices:
        sum = price
    return sum

print(total([1, 2, 3]))
`

const prompt = "(Pdb) "

// debugger looks for the mistake with Python's debugger.
func (h *host) debugger() error {
	w, err := h.open("model")
	if err != nil {
		return err
	}
	program := filepath.Join(filepath.Dir(h.data), "total.py") // commands do not get at the data directory
	if err := os.WriteFile(program, []byte(debugged), 0o600); err != nil {
		return err
	}
	a, err := w.call("execute_code_async", map[string]any{
		"argv": []string{"python3", "-u", "-m", "pdb", program}, "stdin_open": true,
	})
	if err != nil {
		return err
	}
	id, cursor := a.facts.ID, a.facts.Cursor
	if cursor, err = w.untilPrompt(id, cursor); err != nil {
		return err
	}
	for _, line := range []string{"break 4", "continue", "p sum, price", "continue", "p sum, price"} {
		if cursor, err = w.debug(id, cursor, line); err != nil {
			return err
		}
	}
	_, err = w.call("cancel_execution", map[string]any{"execution_id": id})
	return err
}

// debug gives the debugger a command, and reads its answer.
func (w *window) debug(id, cursor, line string) (string, error) {
	arguments := map[string]any{"execution_id": id, "text": line + "\n"}
	if !w.host.before {
		arguments["match"], arguments["cursor"] = prompt, cursor
	}
	a, err := w.call("send_stdin", arguments)
	switch {
	case err != nil:
		return "", err
	case w.host.before:
		return w.untilPrompt(id, cursor)
	}
	return a.prompted()
}

// prompted returns the cursor of an answer that must end with a prompt.
func (a *answer) prompted() (string, error) {
	if !strings.Contains(a.text, prompt) {
		return "", errors.New("the debugger does not ask")
	}
	return a.facts.Cursor, nil
}

// untilPrompt reads output until the debugger asks for something.
func (w *window) untilPrompt(id, cursor string) (string, error) {
	if !w.host.before {
		a, err := w.call("get_execution_output",
			map[string]any{"execution_id": id, "cursor": cursor, "match": prompt})
		if err != nil {
			return "", err
		}
		return a.prompted()
	}
	for read := ""; ; {
		a, err := w.call("get_execution_output", map[string]any{"execution_id": id, "cursor": cursor, "wait": 10})
		if err != nil {
			return "", err
		}
		cursor = a.facts.Cursor
		if read += a.text; strings.Contains(read, prompt) {
			return cursor, nil
		}
		if a.over() {
			return "", errors.New("the debugger has ended")
		}
	}
}

// windows has two windows: the one that starts a run is killed, and the other picks the run up.
func (h *host) windows() error {
	second, err := h.open("second")
	if err != nil {
		return err
	}
	first, err := h.open("first")
	if err != nil {
		return err
	}
	if _, err := first.call("execute_code", map[string]any{
		"command": "for i in 1 2 3 4 5 6; do echo step $i; sleep 1; done", "labels": map[string]any{"task": "steps"},
		"wait_seconds": 2,
	}); err != nil {
		return err
	}
	if err := first.command.Process.Kill(); err != nil {
		return err
	}
	fmt.Fprintln(h.out, "(the first window is killed)")
	a, err := second.call("list_executions", map[string]any{"labels": map[string]any{"task": "steps"}})
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(a.text, "execution ")
	id, _, _ := strings.Cut(rest, " ")
	a, err = second.call("get_execution_output", map[string]any{"execution_id": id, "until": "end"})
	if err == nil && (!strings.HasPrefix(a.text, "step 1\n") || !strings.Contains(a.text, "step 6\n")) {
		err = errors.New("the second window was not shown all of it")
	}
	return err
}
