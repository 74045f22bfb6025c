package main

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestEveryKeyIsEchoed types 200 keys, each when the one before was shown. "go test -v" says how long the way through
// server, supervisor, store and back takes, beside that of a terminal without them.
func TestEveryKeyIsEchoed(t *testing.T) {
	const echo = "stty raw echo; echo up; exec cat > /dev/null"
	o := startOutliving(t)
	p := sit(t, o, "http://"+o.daemon.addr, 80, 24, "run", "-t", "--id", "x", "--", "sh", "-c", echo)
	p.sees("up\n", 1)
	far := echoes(t, p.types, p.seesBytes, len(p.all()))

	cmd := exec.Command("sh", "-c", echo)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	master, err := pty.Start(cmd)
	check(t, err)
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = master.Close()
	}()
	buf, read := make([]byte, 64), 0
	await := func(n int) {
		for read < n {
			got, err := master.Read(buf)
			check(t, err)
			read += got
		}
	}
	await(len("up\n"))
	near := echoes(t, func(key string) { _, err := master.WriteString(key); check(t, err) }, await, read)
	t.Logf("key to echo: median %v, nine of ten within %v; without us %v and %v",
		far[100], far[180], near[100], near[180])
	check(t, o.client.Remove(t.Context(), "x"))
}

// echoes types keys and returns how long each took to be shown, sorted.
func echoes(t *testing.T, types func(string), await func(n int), before int) []time.Duration {
	t.Helper()
	times := make([]time.Duration, 200)
	for i := range times {
		begin := time.Now()
		types("x")
		await(before + i + 1)
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	return times
}
