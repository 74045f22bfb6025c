package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"reprise"
	"reprise/operation"
	"reprise/store/sqlitestore"
)

// The steps that are not idempotent.
const (
	payment = "payment"
	mail    = "mail"
)

var (
	// order is the steps of the job.
	order = []string{"fetch", "unpack", "check", "build", payment, "test", "sign", mail, "publish", "clean"}
	// idempotent are those that may be done again.
	idempotent = []string{"fetch", "unpack", "check", "build", "test", "sign", "publish", "clean"}
)

// doubt is what the job says of what it cannot know.
const doubt = "cannot be known"

// job does the steps that are not done yet, and returns when all are.
func job(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "world"), 0o700); err != nil {
		return err
	}
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "store.db"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	events, err := reprise.Open(ctx, store, nil)
	if err != nil {
		return err
	}
	defer events.Close()
	runner, err := operation.New(events, nil)
	if err != nil {
		return err
	}
	defer runner.Close()

	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "operation:release/42"}
	release := func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		fmt.Println("attempt", op.Fence())
		for i, name := range order {
			if err := do(ctx, op, dir, i, name); err != nil {
				return nil, err
			}
		}
		return []byte("released"), nil
	}
	result, err := runner.Run(ctx, key, []byte("v1.4.2"), release)
	if err == nil {
		fmt.Printf("%s\n", result)
	}
	return err
}

// do does one step of the job.
func do(ctx context.Context, op *operation.Operation, dir string, i int, name string) error {
	again := name != payment && name != mail
	effect := func(context.Context) ([]byte, error) {
		fmt.Printf("step %d, %s, begins\n", i+1, name)
		time.Sleep(time.Millisecond) // it is work
		err := takeEffect(filepath.Join(dir, "world", name), again)
		fmt.Printf("step %d, %s, took effect\n", i+1, name)
		time.Sleep(time.Millisecond)
		return []byte(strconv.Itoa(i)), err
	}
	result, err := op.Step(ctx, name, effect, &operation.StepOptions{Idempotent: again})
	if unknown, ok := errors.AsType[*operation.UnknownError](err); ok {
		switch name {
		case payment: // the bank knows
			made, err := effects(dir, payment)
			if err != nil {
				return err
			}
			fmt.Printf("step %d, %s, was cut short; the bank knows of %d\n", i+1, name, made)
			if made == 0 {
				err = op.MarkNotDone(name)
			} else {
				err = op.MarkDone(name, []byte(strconv.Itoa(i)))
			}
			if err != nil {
				return err
			}
			return do(ctx, op, dir, i, name)
		case mail: // nobody knows
			fmt.Printf("step %d, %s, of attempt %d: %s whether it happened; it is not done again\n",
				i+1, name, unknown.Attempt, doubt)
			return op.MarkDone(name, []byte(strconv.Itoa(i)))
		}
	}
	if err == nil && string(result) != strconv.Itoa(i) {
		err = fmt.Errorf("step %d returned %q", i+1, result)
	}
	if err == nil {
		fmt.Printf("step %d, %s, is done\n", i+1, name)
	}
	return err
}

// takeEffect leaves a file. Done again, a step that is idempotent finds it there; any other step leaves another file.
func takeEffect(path string, idempotent bool) error {
	if idempotent {
		return os.WriteFile(path, nil, 0o600)
	}
	return os.WriteFile(fmt.Sprintf("%s-%d", path, time.Now().UnixNano()), nil, 0o600)
}
