package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// process is a server in a process of its own, so that its CPU time and its
// memory can be told from those of the readers. It is told what to do by
// lines on its stdin and answers each with one line.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	addr string
}

// serveArg is the first argument with which this program is a server; the second is its name.
const serveArg = "serve"

// startProcess starts the server name with arguments of its own.
func startProcess(name string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := startCommand(exec.Command(self, append([]string{serveArg, name}, args...)...))
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", name, err)
	}
	return p, nil
}

// startCommand starts a program that answers orders as Serve does.
func startCommand(cmd *exec.Cmd) (*process, error) {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if p.addr, err = p.answer(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// ask gives an order and returns the answer.
func (p *process) ask(order string) (string, error) {
	if _, err := io.WriteString(p.in, order+"\n"); err != nil {
		return "", err
	}
	return p.answer()
}

func (p *process) answer() (string, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\n")
	if reason, failed := strings.CutPrefix(line, "error "); failed {
		return "", fmt.Errorf("server: %s", reason)
	}
	return line, nil
}

func (p *process) askInt(order string) (int64, error) {
	answer, err := p.ask(order)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(answer, 10, 64)
}

// cpu is the time that the process has used, in user and system mode.
func (p *process) cpu() (time.Duration, error) {
	n, err := p.askInt("cpu")
	return time.Duration(n), err
}

func (p *process) burst(n int) error {
	_, err := p.ask("burst " + strconv.Itoa(n))
	return err
}

func (p *process) steady(n int) error {
	_, err := p.ask("steady " + strconv.Itoa(n))
	return err
}

// Close ends the process.
func (p *process) Close() error {
	_ = p.in.Close()
	return p.cmd.Wait()
}

// IsServer reports whether args ask this program to be a server.
func IsServer(args []string) bool { return len(args) > 1 && args[0] == serveArg }

// Serve is a server until stdin ends; args are those of IsServer.
func Serve(ctx context.Context, args []string) error {
	if program := copies[args[1]]; program != nil {
		return program(args[2:])
	}
	start := servers[args[1]]
	switch args[1] {
	case "contender":
		start = apart
	case mcpServer:
		return serveMCP(ctx)
	case ticks:
		return printTicks(strings.Join(args[2:], " "))
	}
	if start == nil {
		return fmt.Errorf("no server %q", args[1])
	}
	s, err := start(ctx, args[2:])
	if err != nil {
		return err
	}
	return s.serve(ctx)
}

// serve prints the address, and answers orders until stdin ends.
func (s *server) serve(ctx context.Context) error {
	fmt.Println(s.addr)
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		answer, err := s.obey(ctx, strings.Fields(orders.Text()))
		if err != nil {
			answer = "error " + err.Error()
		}
		fmt.Println(answer)
	}
	return orders.Err()
}
