// Command operation does a job of ten steps in a process that is killed with SIGKILL at random, and started again
// until the job is done. Then it checks what has reached the world outside, which here is a folder of files.
//
//	go run ./examples/operation
//
// Eight steps are idempotent: they may be done again, and have their effect once. The payment is not, but the bank
// can be asked about it. The mail is not either, and nobody can be asked: if the process was killed around it, the
// job says that it cannot know whether the mail was sent, and does not send it again.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) == 3 && os.Args[1] == "job" {
		if err := job(context.Background(), os.Args[2]); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := killUntilDone(); err != nil {
		log.Fatal(err)
	}
}

// maxLives bounds how often the job is started. Each life gets at least as far as one line of output.
const maxLives = 500

func killUntilDone() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "operation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w := &watcher{finished: map[string]bool{}}
	for killed := range maxLives {
		done, err := w.live(ctx, dir)
		switch {
		case err != nil:
			return err
		case w.fault != nil:
			return w.fault
		case done:
			return w.judge(dir, killed)
		}
	}
	return fmt.Errorf("the job was not done in %d lives", maxLives)
}

// watcher reads what the job says.
type watcher struct {
	finished map[string]bool // steps that are recorded as done
	doubts   int             // how often it said that something cannot be known
	fault    error
}

// hear takes a line of the job.
func (w *watcher) hear(line string) {
	fmt.Println(" ", line)
	if strings.Contains(line, doubt) {
		w.doubts++
	}
	part := strings.Split(line, ", ") // step 3, check, begins
	switch part[len(part)-1] {
	case "begins":
		if w.finished[part[1]] {
			w.fault = fmt.Errorf("step %q was finished and is done again", part[1])
		}
	case "is done":
		w.finished[part[1]] = true
	}
}

// live starts the job and kills it after some lines of its output, and a moment. done is true if the job was faster.
func (w *watcher) live(ctx context.Context, dir string) (done bool, err error) {
	program, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, program, "job", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	left := 2 + rand.IntN(8)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		w.hear(lines.Text())
		if left--; left == 0 {
			time.Sleep(rand.N(3 * time.Millisecond))
			if err := cmd.Process.Kill(); err == nil {
				fmt.Println("killed")
			}
		}
	}
	err = errors.Join(lines.Err(), cmd.Wait())
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && !exit.Exited() && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// judge compares what has reached the world with what the job has said.
func (w *watcher) judge(dir string, killed int) error {
	for _, name := range append([]string{payment}, idempotent...) {
		if times, err := effects(dir, name); times != 1 {
			return fmt.Errorf("step %q took effect %d times (%v)", name, times, err)
		}
	}
	mails, err := effects(dir, mail)
	if mails > 1 || mails == 0 && w.doubts == 0 {
		return fmt.Errorf("%d mails were sent, and the job knew nothing of it (%v)", mails, err)
	}
	fmt.Printf("ok: killed %d times; %d idempotent steps and the payment took effect once; ", killed, len(idempotent))
	if w.doubts > 0 {
		fmt.Printf("the job could not know whether the mail was sent, and said so; %d was\n", mails)
		return nil
	}
	fmt.Println("the mail was sent once, and the job knows it")
	return nil
}

// effects counts the effects of a step.
func effects(dir, name string) (int, error) {
	found, err := filepath.Glob(filepath.Join(dir, "world", name+"*"))
	return len(found), err
}
