package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reprise/internal/facecheck"
	"reprise/internal/testserver"
)

// serveFaces starts a server with all faces, and returns how to start one in its place after it was killed.
func serveFaces(t *testing.T) (address, token string, restart func(context.Context) error) {
	t.Helper()
	dir := testserver.TempDir(t)
	address = freeAddress(t)
	var d *daemon
	start := func(context.Context) (err error) {
		if d != nil {
			err = d.kill()
		}
		if err == nil {
			d, err = startDaemon(os.Environ(), dir, filepath.Join(dir, "stderr"), "--data", dir, "--listen", address,
				"--stop-executions", "--face", "execd", "--face", "e2b", "--face", "durable")
		}
		return err
	}
	check(t, start(t.Context()))
	t.Cleanup(func() { _ = d.signal(unix.SIGTERM) })
	text, err := os.ReadFile(filepath.Join(dir, "token"))
	check(t, err)
	return address, strings.TrimSpace(string(text)), start
}

// faceTarget is the face of a server as check-face meets it.
func faceTarget(face, address, token string) *facecheck.Target {
	t := &facecheck.Target{Face: face, URL: "http://" + address + "/" + face, Header: http.Header{}, Patience: patience}
	switch face {
	case "durable":
		t.URL = "http://" + address + "/v1/stream"
		t.Header.Set("Authorization", "Bearer "+token)
	case "e2b":
		t.Header.Set("X-Access-Token", token)
	case "execd":
		t.Header.Set("X-EXECD-ACCESS-TOKEN", token)
	}
	return t
}

// TestFacesPassTheirCheck over cuts and a server that is killed.
func TestFacesPassTheirCheck(t *testing.T) {
	address, token, restart := serveFaces(t)
	for _, face := range []string{"durable", "e2b", "execd"} {
		target := faceTarget(face, address, token)
		target.Restart = restart
		report := facecheck.Check(t.Context(), target)
		if passed := report.Counts[facecheck.Passed]; passed < 7 || passed < len(report.Results) {
			t.Errorf("%s: %v", face, report.Results)
		}
	}
}

// faulty is a proxy in front of a server, in which fault changes each line, or message, of the answers at a path, and
// status their statuses. Nil means none.
type faulty struct {
	path   string
	fault  func(part []byte) []byte
	status func(int) int
}

func (f *faulty) start(t *testing.T, address string) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: address}) },
		ModifyResponse: func(res *http.Response) error {
			if !strings.Contains(res.Request.URL.Path, f.path) {
				return nil
			}
			if f.status != nil {
				res.StatusCode = f.status(res.StatusCode)
			}
			if f.fault == nil {
				return nil
			}
			res.Header.Del("Content-Length")
			res.ContentLength = -1
			in, body := bufio.NewReader(res.Body), res.Body
			read, write := io.Pipe()
			next := func() ([]byte, error) { return in.ReadBytes('\n') }
			if res.Header.Get("Content-Type") == "application/connect+json" {
				next = func() ([]byte, error) { return readMessage(in) }
			}
			go func() {
				for {
					part, err := next()
					if _, werr := write.Write(f.fault(part)); err == nil {
						err = werr
					}
					if err != nil {
						_ = write.CloseWithError(err)
						return
					}
				}
			}()
			res.Body = struct {
				io.Reader
				io.Closer
			}{read, closing(func() error { return errors.Join(read.Close(), body.Close()) })}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

type closing func() error

func (f closing) Close() error { return f() }

// readMessage reads a message in its envelope.
func readMessage(in io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	all := append(head, make([]byte, binary.BigEndian.Uint32(head[1:]))...)
	_, err := io.ReadFull(in, all[5:])
	return all, err
}

func without(text string) func([]byte) []byte {
	return func(part []byte) []byte {
		if bytes.Contains(part, []byte(text)) {
			return nil
		}
		return part
	}
}

func instead(old, text string) func([]byte) []byte {
	return func(part []byte) []byte { return bytes.ReplaceAll(part, []byte(old), []byte(text)) }
}

func always(status int) func(int) int { return func(int) int { return status } }

// TestCheckFaceFindsFaults: each case fails where the server does what it is against.
func TestCheckFaceFindsFaults(t *testing.T) {
	address, token, _ := serveFaces(t)
	for _, test := range []struct {
		face, name string
		faulty
	}{
		{"execd", "its lines", faulty{path: "/command", fault: without(`"line 120"`)}},
		{"execd", "by bytes", faulty{path: "/logs", fault: without("line 120")}},
		{"execd", "by eid", faulty{path: "/resume", fault: without(`"line 120"`)}},
		{"execd", "by eid", faulty{path: "/resume", fault: without(`"error"`)}},
		{"execd", "background", faulty{path: "/status/", fault: instead(`"exit_code":7`, `"exit_code":0`)}},
		{"execd", "interrupt", faulty{path: "/status/", fault: instead(`"exit_code":-1`, `"exit_code":0`)}},
		{"execd", "session", faulty{path: "/run", fault: instead("yes", "no")}},
		{"execd", "not found", faulty{path: "/logs", status: always(200)}},
		{"e2b", "its number", faulty{path: "/Start", fault: instead(`"exitCode":7`, `"exitCode":0`)}},
		{"e2b", "cut", faulty{path: "/Connect", fault: without(`"stdout"`)}},
		{"e2b", "connects late", faulty{path: "/Connect", fault: without(`"end"`)}},
		{"e2b", "input", faulty{path: "/List", fault: instead(`"pid"`, `"p"`)}},
		{"e2b", "input", faulty{path: "/CloseStdin", status: always(500)}},
		{"e2b", "signal", faulty{path: "/Connect", fault: instead(`"exitCode":-1`, `"exitCode":-0`)}},
		{"e2b", "not found", faulty{path: "/Connect", fault: instead(`"not_found"`, `"not_there"`)}},
		{"durable", "a reader goes on by offsets", faulty{path: "/check", fault: instead("25,", "25,25,")}},
		{"durable", "cut goes on by offsets", faulty{path: "/check", fault: instead("25,", "")}},
		{"durable", "EventSource", faulty{path: "/check", fault: without("id:")}},
		{"durable", "long poll", faulty{path: "/check", fault: instead("[1]", "[]")}},
		{"durable", "producer", faulty{path: "/check", fault: instead(",15,", ",15,15,")}},
		{"durable", "closed", faulty{path: "/check", fault: instead(`"streamClosed":true`, `"streamClosed":false`)}},
		{"durable", "not found", faulty{path: "/check", status: always(200)}},
	} {
		t.Run(test.face+" "+test.name, func(t *testing.T) {
			t.Parallel()
			target := faceTarget(test.face, test.start(t, address), token)
			target.Only = regexp.MustCompile(test.name)
			if report := facecheck.Check(t.Context(), target); report.Counts[facecheck.Failed] != 1 {
				t.Errorf("%v", report)
			}
		})
	}
}

// TestCheckFace prints what it finds, and exits with 1 when a case has failed.
func TestCheckFace(t *testing.T) {
	t.Parallel()
	nobody := httptest.NewServer(http.NotFoundHandler())
	defer nobody.Close()
	program, err := os.Executable()
	check(t, err)
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"durable " + nobody.URL, 1, "durable: 1 passed, 6 failed, 1 not run\n"},
		{"durable --only exist " + nobody.URL, 0, "passed   what does not exist is not found\n"},
		{"execd --json --only session " + nobody.URL, 1, `"counts":{"failed":1}`},
		{"e2b --only nothing " + nobody.URL, 2, "no case has such a name"},
		{"e2b ftp://x", 2, "is not the URL of a server"},
		{"e2b --patience 0s http://x", 2, "is no time to wait"},
		{"other http://x", 2, "must be one of"},
	} {
		cmd := exec.Command(program)
		cmd.Args = append([]string{"reprise", "check-face"}, strings.Fields(test.args)...)
		out, err := cmd.CombinedOutput()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: exit code %d\n%s", test.args, code, out)
		}
	}
}
