package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// product is "reprise serve" or "reprise gateway" as users start it: the built binary, with its defaults but for the
// address and the folder of its data.
type product struct {
	binary string
	args   []string // of the command line
	dir    string   // of the data
	cmd    *exec.Cmd
	addr   string // host and port
	token  string
	remove func() error
}

// BinaryEnv names a built binary of Reprise. Where it is not set one is built.
const BinaryEnv = "REPRISE_BINARY"

// buildBinary builds the binary once for all races. It stays in the folder for temporary files.
var buildBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(os.TempDir(), fmt.Sprintf("reprise-bench-binary-%d", os.Getuid()), "reprise")
	out, err := exec.Command("go", "-C", "..", "build", "-o", path, "./cmd/reprise").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the binary: %w: %s", err, out)
	}
	return path, nil
})

// startProduct starts a server over a store, "log:", "sqlite:" or "memory:", with further flags.
func startProduct(ctx context.Context, store string, flags ...string) (*product, error) {
	return startVerb(ctx, "serve", store, flags...)
}

// startVerb is startProduct for a verb that serves.
func startVerb(ctx context.Context, verb, store string, flags ...string) (*product, error) {
	binary, err := buildBinary()
	if err != nil {
		return nil, err
	}
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	p := &product{binary: binary, dir: dir, remove: remove, args: append([]string{
		verb, "--listen", "127.0.0.1:0", "--data", dir, "--store", store, "--log-level", "error",
	}, flags...)}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, remove())
	}
	return p, nil
}

// start starts the server, which lasts as long as ctx.
func (p *product) start(ctx context.Context) error {
	p.cmd = exec.CommandContext(ctx, p.binary, p.args...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "listening on ")
		if !ok {
			continue
		}
		u, err := url.Parse(text)
		if err != nil {
			return errors.Join(err, p.stop())
		}
		token, err := os.ReadFile(filepath.Join(p.dir, "token"))
		if err != nil {
			return errors.Join(err, p.stop())
		}
		p.addr, p.token = u.Host, strings.TrimSpace(string(token))
		go func() { // what else it prints must not fill the pipe
			for lines.Scan() {
			}
		}()
		return nil
	}
	return fmt.Errorf("the server does not say where it listens: %w", errors.Join(lines.Err(), p.stop()))
}

func (p *product) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.cmd.Wait()
}

// Close ends the server and removes its data.
func (p *product) Close() error { return errors.Join(p.stop(), p.remove()) }

// environ is what the command line finds the server by.
func (p *product) environ() []string {
	return append(os.Environ(), "REPRISE_URL=http://"+p.addr, "REPRISE_TOKEN="+p.token)
}
