package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"reprise/bench/limit"
)

// copies are the programs of package limit that a command's output goes through, by name. Each reads stdin and writes
// stdout; the arguments are files.
var copies = map[string]func(files []string) error{
	"copies-spool": func(files []string) error { return limit.Spool(os.Stdin, files[0], os.Stdout) },
	"copies-relay": func(files []string) error { return limit.Relay(os.Stdin, files[0], files[1], os.Stdout) },
	"copies-show":  func([]string) error { return limit.Show(os.Stdin, os.Stdout) },
}

// outputCopies prints through a spool, a log and a connection, from process to process as the output of the server
// goes, with nothing but the copies.
func outputCopies(_ context.Context, scale Scale) (Runner, error) {
	path, text, remove, err := outputSource(scale)
	if err != nil {
		return nil, err
	}
	return closing{func(ctx context.Context) (Sample, error) {
		counted := &comparing{left: text}
		start := time.Now()
		err := copyThrough(ctx, path, counted)
		if err == nil && len(counted.left) > 0 {
			err = fmt.Errorf("%w: the last %d bytes that were printed", errLost, len(counted.left))
		}
		return Sample{"s/run": time.Since(start).Seconds()}, err
	}, remove}, nil
}

func copyThrough(ctx context.Context, path string, to io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	sender, receiver, err := connection()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	spool := filepath.Join(dir, "spool")
	if err := os.WriteFile(spool, nil, 0o600); err != nil { // for whoever opens it first
		return err
	}
	program := func(name string, in *os.File, out io.Writer, files ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self, append([]string{serveArg, name}, files...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, os.Stderr
		return cmd
	}
	printed, print, err := os.Pipe()
	if err != nil {
		return err
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	cat := exec.CommandContext(ctx, "cat", path)
	cat.Stdout = print
	running := []*exec.Cmd{
		cat, program("copies-spool", printed, tell, spool),
		program("copies-relay", told, sender, spool, filepath.Join(dir, "log")), program("copies-show", receiver, to),
	}
	for _, cmd := range running {
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	var failures []error
	for _, end := range []*os.File{print, printed, tell, told, sender, receiver} {
		failures = append(failures, end.Close())
	}
	for _, cmd := range running {
		failures = append(failures, cmd.Wait())
	}
	return errors.Join(failures...)
}

// connection returns the ends of a connection over loopback, as files for other programs.
func connection() (one, other *os.File, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	defer dialled.Close()
	accepted, err := l.Accept()
	if err != nil {
		return nil, nil, err
	}
	defer accepted.Close()
	if one, err = dialled.(*net.TCPConn).File(); err != nil {
		return nil, nil, err
	}
	other, err = accepted.(*net.TCPConn).File()
	return one, other, err
}
