package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"reprise/bench/limit"
)

// productWriteRace is the other half of Q10: from a command's write to the client that follows it. The limit reads the
// command's pipe, and appends what comes to a preallocated file, which it syncs before it takes the time.
func productWriteRace() Race {
	const synced = "limit=pipe-synced"
	row := func(store, name string, goal Bound) Row {
		return Row{
			Target: "Q10", What: "command's write to client, " + name, Unit: "p50-ms", Ours: "store=" + store,
			Limit: synced, Goal: goal,
		}
	}
	return Race{
		Name: "ProductWrite",
		Contenders: []Contender{
			{synced, pipeSynced, false},
			{"store=log", productWrite("log:"), false},
			{"store=sqlite", productWrite("sqlite:"), false},
			{"store=memory", productWrite("memory:"), false},
		},
		Rows: []Row{
			row("log", "embedded log", Bound{Than: synced, Most: 1.3}), row("sqlite", "SQLite", Bound{}),
			row("memory", "memory", Bound{}),
		},
	}
}

// ticks is the name of the command of the race, a server that has no clients: it prints lines with the time.
const ticks = "ticks"

// printTicks prints n lines, 200 a second.
func printTicks(n string) error {
	left, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	line := append([]byte{mark}, make([]byte, stampLen)...)
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for range left {
		<-pause.C
		stamp(line, time.Now())
		if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// writeSample is the sample of a lap of n lines.
func writeSample(late []time.Duration, n int) (Sample, error) {
	if len(late) != n {
		return nil, fmt.Errorf("%w: %d of %d lines", errLost, len(late), n)
	}
	slices.Sort(late)
	return Sample{"p50-ms": late[n/2].Seconds() * 1000, "p90-ms": late[n*9/10].Seconds() * 1000}, nil
}

// writeTicks is the number of lines of a lap.
func writeTicks(scale Scale) int { return scale.Of(200, 20) }

func pipeSynced(_ context.Context, scale Scale) (Runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	log, err := limit.CreateFileLog(filepath.Join(dir, "output"), 8<<20)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	n := writeTicks(scale)
	return closing{func(ctx context.Context) (Sample, error) {
		cmd := exec.CommandContext(ctx, self, serveArg, ticks, strconv.Itoa(n))
		late, err := syncLines(cmd, log)
		if err != nil {
			return nil, err
		}
		return writeSample(late, n)
	}, func() error { return errors.Join(log.Close(), remove()) }}, nil
}

// syncLines appends what a command prints to a file, and returns how late each line was on the disk.
func syncLines(cmd *exec.Cmd, log *limit.FileLog) (late []time.Duration, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := out.Read(buf)
		if errors.Is(err, io.EOF) {
			return late, cmd.Wait()
		}
		if err == nil {
			err = log.Append(buf[:n])
		}
		if err != nil {
			return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
		late = lateness(late, buf[:n])
	}
}

func productWrite(store string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		n := writeTicks(scale)
		body := fmt.Sprintf(`{"argv":[%q,%q,%q,"%d"]}`, self, serveArg, ticks, n)
		asked := p.eventRequest("POST", "/v1/executions", body)
		return closing{func(context.Context) (Sample, error) {
			late, err := p.followTicks(asked)
			if err != nil {
				return nil, err
			}
			return writeSample(late, n)
		}, p.Close}, nil
	}
}

// followTicks starts the command and returns how late each line was here.
func (p *product) followTicks(asked []byte) (late []time.Duration, err error) {
	w, err := dialWire(p.addr)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := w.write(asked); err != nil {
		return nil, err
	}
	for {
		line, err := w.line()
		if err != nil {
			return nil, err
		}
		late = lateness(late, line)
		if bytes.Equal(line, []byte("0")) { // the chunk after the last
			return late, nil
		}
	}
}
