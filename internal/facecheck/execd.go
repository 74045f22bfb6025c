package facecheck

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// execdCases are of the HTTP API of OpenSandbox's daemon.
var execdCases = []testCase{
	{"a command has its lines and its exit code", false, execdCommand},
	{"a reader that was cut reads on by bytes", false, execdCut(execdByBytes, false)},
	{"a reader that was cut resumes by eid", false, execdCut(execdByEID, false)},
	{"a command in the background has the same log", false, execdBackground},
	{"an interrupt ends a command", false, execdInterrupt},
	{"a session keeps its state", false, execdSession},
	{"what does not exist is not found", false, execdUnknown},
	{"a reader of a server that was killed reads on by bytes", true, execdCut(execdByBytes, true)},
	{"a reader of a server that was killed resumes by eid", true, execdCut(execdByEID, true)},
}

// execdFrame is an event of a response that goes on.
type execdFrame struct {
	Type, Text string
	EID        int64
	Error      *struct{ EName, EValue string }
}

// execdFrames calls f with the frames of a response until it returns false.
func execdFrames(from io.Reader, f func(*execdFrame) bool) error {
	for in := bufio.NewReader(from); ; {
		line, err := in.ReadString('\n')
		line = strings.TrimPrefix(strings.TrimRight(line, "\n"), "data: ")
		if strings.HasPrefix(line, "{") {
			var frame execdFrame
			if err := json.Unmarshal([]byte(line), &frame); err != nil {
				return fmt.Errorf("a frame is no JSON: %q", line)
			}
			if !f(&frame) {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// execdRun is what frames have told of a command.
type execdRun struct {
	id, out, code string
	eid           int64
	ended         bool
}

func (r *execdRun) add(f *execdFrame) {
	r.eid = max(r.eid, f.EID)
	switch f.Type {
	case "init":
		r.id = f.Text
	case "stdout":
		r.out += strings.TrimSuffix(f.Text, "\n") + "\n"
	case "error":
		r.ended = true
		if f.Error != nil {
			r.code = f.Error.EValue
		}
	case "execution_complete":
		r.ended, r.code = true, "0"
	}
}

func (r *execdRun) check() error {
	if err := checkLines(r.out); err != nil {
		return err
	}
	if want := strconv.Itoa(exitCode); !r.ended || r.code != want {
		return fmt.Errorf("it ended: %t, with %q, not %s", r.ended, r.code, want)
	}
	return nil
}

// execdStart starts a command and reads its frames as long as more returns true.
func execdStart(c *client, body map[string]any, more func(*execdRun) bool) (*execdRun, error) {
	res, err := c.send("POST", "/command", quote(body), ok, asJSON...)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	r := &execdRun{}
	err = execdFrames(res.Body, func(f *execdFrame) bool {
		r.add(f)
		return more(r)
	})
	if err == nil && r.id == "" {
		err = errors.New("no init event names the command")
	}
	return r, err
}

func whole(*execdRun) bool { return true }

func execdCommand(c *client) error {
	r, err := execdStart(c, map[string]any{"command": counting}, whole)
	if err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	return execdEnded(c, r.id)
}

// execdState asks for the state of a command.
func execdState(c *client, id string) (running bool, code *int, err error) {
	a, err := c.do("GET", "/command/status/"+id, "", ok)
	if err != nil {
		return false, nil, err
	}
	var state struct {
		Running *bool `json:"running"`
		Code    *int  `json:"exit_code"`
	}
	if err := json.Unmarshal(a.body, &state); err != nil || state.Running == nil {
		return false, nil, fmt.Errorf("the status is %s", a.body)
	}
	return *state.Running, state.Code, nil
}

// execdEnded waits until the status of a command has its exit code.
func execdEnded(c *client, id string) error {
	for {
		running, code, err := execdState(c, id)
		if err != nil {
			return err
		}
		if !running {
			if code == nil || *code != exitCode {
				return fmt.Errorf("the status has no exit code %d", exitCode)
			}
			return nil
		}
		if err := c.tick(); err != nil {
			return err
		}
	}
}

// execdCut reads some lines of a command, and the others by rest.
func execdCut(rest func(*client, *execdRun) error, restart bool) func(*client) error {
	return func(c *client) error {
		r, err := execdStart(c, map[string]any{"command": counting}, func(r *execdRun) bool {
			return strings.Count(r.out, "\n") < numberOfLines/4
		})
		if err == nil && restart {
			err = c.Restart(c.ctx)
		}
		if err == nil {
			err = rest(c, r)
		}
		if err != nil {
			return err
		}
		return checkLines(r.out)
	}
}

func execdByEID(c *client, r *execdRun) error {
	res, err := c.send("GET", "/command/"+r.id+"/resume?after_eid="+strconv.FormatInt(r.eid, 10), "", ok)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := execdFrames(res.Body, func(f *execdFrame) bool { r.add(f); return true }); err != nil {
		return err
	}
	return r.check()
}

// execdByBytes reads the log behind what a run has seen, until the command has ended.
func execdByBytes(c *client, r *execdRun) error {
	for running := true; running; {
		var err error
		if running, _, err = execdState(c, r.id); err != nil { // before the log, which has all if it has ended
			return err
		}
		a, err := c.do("GET", fmt.Sprintf("/command/%s/logs?cursor=%d", r.id, len(r.out)), "", ok)
		if err != nil {
			return err
		}
		r.out += string(a.body)
		if next := a.Get("Execd-Commands-Tail-Cursor"); next != strconv.Itoa(len(r.out)) {
			return fmt.Errorf("behind %d bytes the cursor is %q", len(r.out), next)
		}
		if err := c.tick(); running && err != nil {
			return err
		}
	}
	return execdEnded(c, r.id)
}

func execdBackground(c *client) error {
	r, err := execdStart(c, map[string]any{"command": counting, "background": true}, whole)
	if err != nil {
		return err
	}
	if r.out != "" {
		return errors.New("the answer has output")
	}
	if err := execdByBytes(c, r); err != nil {
		return err
	}
	return checkLines(r.out)
}

func execdInterrupt(c *client) error {
	r, err := execdStart(c, map[string]any{"command": "echo begun; sleep 600"}, func(r *execdRun) bool {
		return r.out == ""
	})
	if err != nil {
		return err
	}
	if _, err := c.do("DELETE", "/command?id="+r.id, "", ok); err != nil {
		return err
	}
	for {
		running, code, err := execdState(c, r.id)
		switch {
		case err != nil:
			return err
		case !running && code != nil && *code == 0:
			return errors.New("the command that was ended has the exit code 0")
		case !running:
			return nil
		}
		if err := c.tick(); err != nil {
			return err
		}
	}
}

func execdSession(c *client) error {
	a, err := c.do("POST", "/session", "{}", ok, asJSON...)
	if err != nil {
		return err
	}
	var session struct {
		ID string `json:"session_id"`
	}
	if err := json.Unmarshal(a.body, &session); err != nil || session.ID == "" {
		return fmt.Errorf("the session is %s", a.body)
	}
	r := &execdRun{}
	for _, command := range []string{"kept=yes", "echo $kept"} {
		res, err := c.send("POST", "/session/"+session.ID+"/run", quote(map[string]string{"command": command}), ok,
			asJSON...)
		if err != nil {
			return err
		}
		err = execdFrames(res.Body, func(f *execdFrame) bool { r.add(f); return true })
		_ = res.Body.Close()
		if err != nil {
			return err
		}
	}
	if r.out != "yes\n" {
		return fmt.Errorf("the output is %q, not \"yes\\n\"", r.out)
	}
	_, err = c.do("DELETE", "/session/"+session.ID, "", ok)
	return err
}

func execdUnknown(c *client) error {
	const id = "4f7d3c0000000000000000000000ffff"
	for _, path := range []string{"/command/status/" + id, "/command/" + id + "/logs", "/command/" + id + "/resume"} {
		if _, err := c.do("GET", path, "", []int{404}); err != nil {
			return err
		}
	}
	_, err := c.do("POST", "/session/"+id+"/run", `{"command":"true"}`, []int{404}, asJSON...)
	return err
}
