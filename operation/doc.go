// Package operation runs long jobs that survive the death of their process. A job is a function that does its work in
// named steps. Each finished step is recorded under a key in a reprise.Log. When the job is run again with the same
// key, by this process or any other, finished steps return their recorded results and the job continues after them.
//
//	runner, err := operation.New(log, nil)
//	defer runner.Close()
//
//	release := func(ctx context.Context, op *operation.Operation) ([]byte, error) {
//		image, err := op.Step(ctx, "build", build, &operation.StepOptions{Idempotent: true})
//		if err != nil {
//			return nil, err
//		}
//		if _, err := op.Step(ctx, "announce", announce, nil); err != nil {
//			return nil, err
//		}
//		return image, nil
//	}
//	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "operation:release/42"}
//	result, err := runner.Run(ctx, key, []byte("v1.4.2"), release)
//
// # What is done once, and what cannot be known
//
// The begin of a step is recorded before its function is called, and its result after the function has returned. If the
// process dies in between, it is unknown whether the step took effect. No record can change that, because the effect is
// outside of the Log. Such a step is never skipped silently:
//
//   - A step with StepOptions.Idempotent is repeated.
//   - Any other step returns an [*UnknownError], and its function is not called. The job finds out what happened, or
//     asks a person, and calls [Operation.MarkDone] or [Operation.MarkNotDone]. If the job returns the error instead,
//     it stops there, and the next Run finds the step in the same state.
//
// So the function of a finished step is never called again. A step that is not idempotent is called at most once,
// unless the job marks it as not done.
//
// # One runner for a key
//
// Of any number of calls of [Runner.Run] with the same key and input, in any number of processes that share the store,
// one runs the job. The others wait and return its result. When its process dies or leaves, one of the waiting calls
// continues the job. After success the recorded result is returned without running anything. After a failure the
// next Run continues after the last finished step.
//
// Each attempt takes over the stream as its reprise.Owner, under the next fence, so the store refuses later appends of
// an earlier attempt. On a shared store, package replica decides whether the process of an attempt lives. In a process
// that was only slow, the job's context is cancelled with reprise.ErrFenced, and the job can record nothing more.
// Before that cancellation, two attempts may act on external systems at the same time. A system that must prevent this
// compares [Operation.Fence], which is higher for each attempt, with the highest that it has seen.
//
// # The record
//
// The record is the stream under the key, which can be followed like any other: events of type "attempt", "step_began",
// "step_done", "step_failed", "failed" and "left", and the end. It has no bounds of its own until the job succeeds, and
// is kept for Options.Keep after that. Then the key is free again, and the same Run starts over. Log.Remove
// removes it earlier. If a quota of the Log has trimmed the record, Run returns the *reprise.WindowError and runs
// nothing. A record is as durable as the store: a store that loses acknowledged events in a failover loses steps.
package operation
