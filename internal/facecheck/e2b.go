package facecheck

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// e2bCases are of the process service of E2B's daemon, in Connect-JSON.
var e2bCases = []testCase{
	{"a command has its number, output and exit code", false, e2bCommand},
	{"a reader that was cut reads on by bytes", false, e2bCut(false)},
	{"a client that connects late gets the end", false, e2bEnded},
	{"input reaches a command, and its end too", false, e2bInput},
	{"a signal ends a command", false, e2bSignal},
	{"what does not exist is not found", false, e2bUnknown},
	{"a reader of a server that was killed reads on by bytes", true, e2bCut(true)},
}

const (
	connectStream = "application/connect+json"
	maxEnvelope   = 16 << 20
)

// e2bRun is what a stream has told of a process.
type e2bRun struct {
	pid   uint32
	out   bytes.Buffer
	code  *int
	ended bool   // the last envelope has come
	error string // its code, "" for none
}

// e2bStream makes a call with a stream, and reads it as long as more returns true.
func e2bStream(c *client, path, message string, r *e2bRun, more func() bool) error {
	body := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
	res, err := c.send("POST", path, body, ok, "Content-Type", connectStream)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); kind != connectStream {
		return fmt.Errorf("%s: the content type is %q", path, kind)
	}
	for !r.ended && more() {
		if err := r.read(res.Body); err != nil {
			return fmt.Errorf("%s: the stream breaks off: %w", path, err)
		}
	}
	return nil
}

// read reads an envelope.
func (r *e2bRun) read(from io.Reader) error {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxEnvelope {
		return fmt.Errorf("an envelope has %d bytes", size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(from, text); err != nil {
		return err
	}
	var m struct {
		Event struct {
			Start *struct{ PID uint32 }
			Data  *struct{ Stdout []byte }
			End   *struct {
				ExitCode int
				Exited   bool
			}
		}
		Error *struct{ Code string }
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("a message is no JSON: %q", text)
	}
	switch {
	case m.Event.Start != nil:
		r.pid = m.Event.Start.PID
	case m.Event.Data != nil:
		r.out.Write(m.Event.Data.Stdout)
	case m.Event.End != nil:
		r.code = &m.Event.End.ExitCode
	}
	if m.Error != nil {
		r.error = m.Error.Code
	}
	r.ended = head[0] == 2
	return nil
}

func (r *e2bRun) check() error {
	if err := checkLines(r.out.String()); err != nil {
		return err
	}
	return r.checkEnd()
}

func (r *e2bRun) checkEnd() error {
	if !r.ended || r.error != "" || r.code == nil || *r.code != exitCode {
		return fmt.Errorf("it ended: %t, with error %q and without exit code %d", r.ended, r.error, exitCode)
	}
	return nil
}

// e2bStart starts a command in a sandbox of its own.
func e2bStart(c *client, command string, stdin bool, more func(*e2bRun) bool) (*e2bRun, error) {
	message := quote(map[string]any{
		"process": map[string]any{"cmd": "/bin/sh", "args": []string{"-c", command}}, "stdin": stdin,
	})
	if c.Header == nil {
		c.Header = http.Header{}
	}
	c.Header.Set("E2b-Sandbox-Id", "check-"+strings.ToLower(rand.Text()))
	r := &e2bRun{}
	err := e2bStream(c, "/process.Process/Start", message, r, func() bool { return more(r) })
	if err == nil && r.pid == 0 {
		err = errors.New("no event has the number of the process")
	}
	return r, err
}

// toItsEnd and untilOutput say how far a stream is read.
func toItsEnd(*e2bRun) bool { return true }

func untilOutput(r *e2bRun) bool { return r.out.Len() == 0 }

func process(pid uint32) map[string]any { return map[string]any{"process": map[string]any{"pid": pid}} }

// e2bConnect connects to a process, at an address of the sandbox that has prefix behind it.
func e2bConnect(c *client, r *e2bRun, prefix string) (*e2bRun, error) {
	next := &e2bRun{}
	err := e2bStream(c, prefix+"/process.Process/Connect", quote(process(r.pid)), next, func() bool { return true })
	return next, err
}

func e2bCommand(c *client) error {
	r, err := e2bStart(c, counting, false, toItsEnd)
	if err != nil {
		return err
	}
	return r.check()
}

func e2bCut(restart bool) func(*client) error {
	return func(c *client) error {
		r, err := e2bStart(c, counting, false, untilOutput)
		if err == nil && restart {
			err = c.Restart(c.ctx)
		}
		if err != nil {
			return err
		}
		rest, err := e2bConnect(c, r, fmt.Sprintf("/after/%d", r.out.Len()))
		if err != nil {
			return err
		}
		r.out.Write(rest.out.Bytes())
		r.code, r.ended, r.error = rest.code, rest.ended, rest.error
		return r.check()
	}
}

func e2bEnded(c *client) error {
	r, err := e2bStart(c, counting, false, toItsEnd)
	if err != nil {
		return err
	}
	again, err := e2bConnect(c, r, "")
	if err != nil {
		return err
	}
	return again.checkEnd()
}

// e2bCall makes a call with one message each way.
func e2bCall(c *client, method string, message any, statuses []int) (*answer, error) {
	return c.do("POST", "/process.Process/"+method, quote(message), statuses, asJSON...)
}

func e2bInput(c *client) error {
	r, err := e2bStart(c, "echo begun; cat; exit 7", true, untilOutput)
	if err != nil {
		return err
	}
	input := process(r.pid)
	input["input"] = map[string]any{"stdin": []byte("one\n")}
	if _, err := e2bCall(c, "SendInput", input, ok); err != nil {
		return err
	}
	a, err := e2bCall(c, "List", struct{}{}, ok)
	if err != nil {
		return err
	}
	if !strings.Contains(string(a.body), fmt.Sprintf(`"pid":%d`, r.pid)) {
		return fmt.Errorf("the list lacks %d: %s", r.pid, a.body)
	}
	if _, err := e2bCall(c, "CloseStdin", process(r.pid), ok); err != nil {
		return err
	}
	rest, err := e2bConnect(c, r, "/after/start")
	if err != nil {
		return err
	}
	if got := rest.out.String(); got != "begun\none\n" {
		return fmt.Errorf("the output is %q", got)
	}
	return rest.checkEnd()
}

func e2bSignal(c *client) error {
	r, err := e2bStart(c, "echo begun; sleep 600", false, untilOutput)
	if err != nil {
		return err
	}
	signal := process(r.pid)
	signal["signal"] = "SIGNAL_SIGKILL"
	if _, err := e2bCall(c, "SendSignal", signal, ok); err != nil {
		return err
	}
	again, err := e2bConnect(c, r, "")
	if err != nil {
		return err
	}
	if again.code == nil || *again.code == 0 {
		return errors.New("the process that was killed has no exit code, or 0")
	}
	return nil
}

func e2bUnknown(c *client) error {
	const pid = 1<<31 - 1
	none := &e2bRun{pid: pid}
	again, err := e2bConnect(c, none, "")
	if err != nil {
		return err
	}
	if again.error != "not_found" {
		return fmt.Errorf("the stream of an unknown process ends with %q, not \"not_found\"", again.error)
	}
	a, err := e2bCall(c, "CloseStdin", process(pid), []int{404})
	if err != nil {
		return err
	}
	if !strings.Contains(string(a.body), `"not_found"`) {
		return fmt.Errorf("the answer is %s", a.body)
	}
	return nil
}
