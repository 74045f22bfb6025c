package operation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"reprise"
	"reprise/operation"
	"reprise/store/sqlitestore"
)

// The environment of the process that is killed.
const (
	envWork = "OPERATION_TEST_WORK" // the directory of its store and of the effects of its steps
	envDie  = "OPERATION_TEST_DIE"  // where it kills itself, for example "3 after"
)

const steps = 5

// workUntilKilled is a process that does a job of five steps. The third one is not idempotent.
func workUntilKilled() {
	dir := os.Getenv(envWork)
	if dir == "" {
		return
	}
	if err := work(dir, os.Getenv(envDie)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func work(dir, die string) error {
	ctx := context.Background()
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "store.db"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	log, err := reprise.Open(ctx, store, nil)
	if err != nil {
		return err
	}
	defer log.Close()
	runner, err := operation.New(log, nil)
	if err != nil {
		return err
	}
	defer runner.Close()
	_, err = runner.Run(ctx, key, nil, func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		for i := range steps {
			dieAt(die, i, "between")
			effect := func(context.Context) ([]byte, error) {
				dieAt(die, i, "before")
				f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					return nil, err
				}
				defer f.Close()
				_, err = fmt.Fprintln(f, "step", i)
				dieAt(die, i, "after")
				return []byte(strconv.Itoa(i)), err
			}
			result, err := op.Step(ctx, fmt.Sprint("step ", i), effect, &operation.StepOptions{Idempotent: i != 2})
			if err != nil {
				return nil, err
			}
			if string(result) != strconv.Itoa(i) {
				return nil, fmt.Errorf("step %d returned %q", i, result)
			}
		}
		return nil, nil
	})
	return err
}

// dieAt is kill -9 of ourselves, where that was asked for.
func dieAt(die string, step int, where string) {
	if die == fmt.Sprint(step, " ", where) {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {}
	}
}

// TestKilledProcessRepeatsNoFinishedStep kills a process in, before and between all its steps, and starts it again.
// Steps that were finished are not done again; of the one that is not idempotent and was cut short it is said that
// nobody knows.
func TestKilledProcessRepeatsNoFinishedStep(t *testing.T) {
	for i := range steps {
		for _, where := range []string{"between", "before", "after"} {
			t.Run(fmt.Sprint(i, " ", where), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				err := child(t, dir, fmt.Sprint(i, " ", where))
				exit, ok := errors.AsType[*exec.ExitError](err)
				if !ok || exit.Exited() {
					t.Fatalf("it was to be killed: %v", err)
				}
				err = child(t, dir, "")
				if i == 2 && where != "between" {
					if err == nil || !strings.Contains(err.Error(), operation.ErrUnknown.Error()) {
						t.Fatalf("the step was cut short: %v", err)
					}
					return
				}
				check(t, err)
				want := map[int]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 1}
				if where == "after" {
					want[i]++ // idempotent, and not known to be done
				}
				effects, err := os.ReadFile(filepath.Join(dir, "effects"))
				check(t, err)
				for step, times := range want {
					if got := strings.Count(string(effects), fmt.Sprintln("step", step)); got != times {
						t.Errorf("step %d was done %d times instead of %d", step, got, times)
					}
				}
			})
		}
	}
}

// child runs workUntilKilled. The error holds what it says.
func child(t *testing.T, dir, die string) error {
	t.Helper()
	cmd := exec.CommandContext(within(t), os.Args[0])
	cmd.Env = append(os.Environ(), envWork+"="+dir, envDie+"="+die)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
