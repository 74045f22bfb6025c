package operation_test

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/operation"
	"reprise/store/memstore"
)

// A job fails in its second step. When it is run again the first one is not done again.
func Example() {
	ctx := context.Background()
	store := memstore.New(nil) // a store in a file, or one that replicas share, outlives the process
	defer store.Close()
	log, err := reprise.Open(ctx, store, nil)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	runner, err := operation.New(log, nil)
	if err != nil {
		panic(err)
	}
	defer runner.Close()

	full := true
	build := func(context.Context) ([]byte, error) {
		fmt.Println("building")
		return []byte("image-42"), nil
	}
	push := func(context.Context) ([]byte, error) {
		if full {
			return nil, errors.New("the registry is full")
		}
		fmt.Println("pushing")
		return nil, nil
	}
	release := func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		image, err := op.Step(ctx, "build", build, nil)
		if err != nil {
			return nil, err
		}
		if _, err := op.Step(ctx, "push", push, nil); err != nil {
			return nil, err
		}
		return image, nil
	}

	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "operation:release/42"}
	_, err = runner.Run(ctx, key, nil, release)
	fmt.Println("error:", err)
	full = false
	image, err := runner.Run(ctx, key, nil, release)
	fmt.Printf("released %s, %v\n", image, err)
	image, err = runner.Run(ctx, key, nil, release)
	fmt.Printf("recorded %s, %v\n", image, err)
	// Output:
	// building
	// error: the registry is full
	// pushing
	// released image-42, <nil>
	// recorded image-42, <nil>
}

// A step that is not idempotent may have been cut short. The job finds out what happened and says so.
func ExampleUnknownError() {
	ctx := context.Background()
	store := memstore.New(nil)
	defer store.Close()
	log, err := reprise.Open(ctx, store, nil)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	runner, err := operation.New(log, nil)
	if err != nil {
		panic(err)
	}
	defer runner.Close()

	charge := func(context.Context) ([]byte, error) {
		return nil, fmt.Errorf("%w: no answer from the bank", operation.ErrUnknown)
	}
	pay := func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		receipt, err := op.Step(ctx, "charge", charge, nil)
		if unknown, ok := errors.AsType[*operation.UnknownError](err); ok && unknown.Err == nil {
			fmt.Println("asking the bank about", unknown.Step)
			receipt = []byte("receipt-7")
			err = op.MarkDone("charge", receipt)
		}
		return receipt, err
	}

	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "operation:pay/7"}
	_, err = runner.Run(ctx, key, nil, pay)
	fmt.Println(errors.Is(err, operation.ErrUnknown))
	receipt, err := runner.Run(ctx, key, nil, pay)
	fmt.Printf("%s, %v\n", receipt, err)
	// Output:
	// true
	// asking the bank about charge
	// receipt-7, <nil>
}
