package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"

	"reprise"
)

// Helper runs a helper program for one archive. It is safe for concurrent use.
type Helper struct {
	program, url string

	mu      sync.Mutex
	running *process // nil before the first one
	closed  bool
}

// Start starts program for the archive that url names, and returns when the archive is open. The error is that of
// opening the archive, or wraps reprise.ErrUnavailable if the program could not be run.
func Start(ctx context.Context, program, url string) (*Helper, error) {
	h := &Helper{program: program, url: url}
	if _, err := h.process(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

// process returns the running process, which is started if there is none.
func (h *Helper) process(ctx context.Context) (*process, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, reprise.ErrClosed
	}
	if h.running != nil {
		select {
		case <-h.running.over:
		default:
			return h.running, nil
		}
	}
	var err error
	h.running, err = start(ctx, h.program, h.url)
	if err != nil {
		h.running = nil
	}
	return h.running, err
}

// PID is the id of the process that runs, 0 if none does.
func (h *Helper) PID() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running == nil {
		return 0
	}
	return h.running.pid
}

// Close ends the process and waits for its end. Calls under way fail.
func (h *Helper) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.running != nil {
		h.running.stop()
	}
	return nil
}

// process is one run of the program.
type process struct {
	pid    int
	stdin  io.Closer
	over   chan struct{} // closed when it has ended
	client *http.Client
}

// start runs the program and waits for its Hello.
func start(ctx context.Context, program, url string) (*process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	cmd := exec.Command(program, ProtocolArgument) // it outlives ctx
	cmd.Stderr = os.Stderr
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("%w: %v", reprise.ErrUnavailable, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %v", reprise.ErrUnavailable, err)
	}
	p := &process{pid: cmd.Process.Pid, stdin: stdin, over: make(chan struct{})}
	hello := make(chan error, 1)
	go p.attend(cmd, url, NewConn(stdout, stdin), hello)
	var err error
	select {
	case err = <-hello:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// attend says the URL, hears the Hello, and waits for the end of the process.
func (p *process) attend(cmd *exec.Cmd, url string, conn *Conn, hello chan<- error) {
	_, _ = io.WriteString(conn, url+"\n") // what cannot be written is seen by the missing answer
	err := readHello(conn)
	var requests *http.ClientConn
	if err == nil {
		requests, err = requestsOver(conn)
	}
	if requests != nil {
		p.client = &http.Client{Transport: requests}
	}
	hello <- err
	if err != nil {
		_ = conn.Close()
	}
	<-conn.Closed()
	if requests != nil {
		_ = requests.Close()
	}
	_ = cmd.Wait() // how it ended changes nothing
	close(p.over)
}

func readHello(conn *Conn) error {
	line, err := conn.ReadLine()
	if err != nil {
		return fmt.Errorf("%w: the archive helper ended before it said anything", reprise.ErrUnavailable)
	}
	var h Hello
	if err := json.Unmarshal(line, &h); err != nil || h.Protocol != Protocol {
		return fmt.Errorf("%w: the archive helper is of another version; build both programs from the same commit",
			reprise.ErrInvalid)
	}
	if h.Error != nil {
		return h.Error.Err()
	}
	return nil
}

// requestsOver makes requests over conn.
func requestsOver(conn *Conn) (*http.ClientConn, error) {
	t := &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return t.NewClientConn(context.Background(), "http", "reprise-archive:80")
}

// stop ends the process and waits for that.
func (p *process) stop() {
	_ = p.stdin.Close()
	<-p.over
}
