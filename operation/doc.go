// Package operation runs long jobs that survive the death of their process. A job is a function that does its work in
// named steps; each finished step is recorded under a key in a reprise.Log. When the job is run again under the same
// key, by this process or any other, finished steps return their recorded results and the job goes on from there.
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
// That a step begins is recorded before its function is called, and that it is done after the function has returned.
// A process that dies in between leaves a step of which nobody knows whether it took effect. No record can change that:
// the effect is outside of the Log. Such a step is never passed over in silence:
//
//   - A step with StepOptions.Idempotent is done again.
//   - Any other step returns an [*UnknownError], and its function is not called. The job finds out what happened, or
//     asks somebody, and says so with [Operation.MarkDone] or [Operation.MarkNotDone]. A job that returns the error
//     stops there; the next Run finds the step as it was.
//
// So the function of a finished step is never called again, and a step that is not idempotent is called at most once
// unless the job says that it did not take effect.
//
// # One runner for a key
//
// Of any number of calls of [Runner.Run] with the same key and input, in any number of processes that share the store,
// one runs the job. The others wait and return what it returns. When its process dies or leaves, one of those that wait
// goes on with the job. After success the recorded result is returned without running anything. After a failure the
// next Run goes on after the last finished step.
//
// Each attempt takes the stream over as its reprise.Owner, under the next fence, so the store refuses what an earlier
// attempt still sends. On a store that is shared, whether the process of an attempt lives is what package replica says;
// a process that was only slow is told by the cancellation of the job's context with reprise.ErrFenced, and can record
// nothing any more. Between the moment when it was taken for dead and that cancellation two attempts can be at work in
// the world outside. A system that must not let that happen compares [Operation.Fence], which is higher for each
// attempt, with the highest that it has seen.
//
// # The record
//
// The record is the stream under the key, which can be followed like any other: events of type "attempt", "step_began",
// "step_done", "step_failed", "failed" and "left", and the end. It is kept without bounds of its own until the job
// succeeds, and for Options.Keep after that. Then the key is free again, and the same Run starts anew. Log.Remove
// forgets it earlier. Where a quota of the Log has cut the record, Run returns the *reprise.WindowError and runs
// nothing. A record is as durable as the store: one that loses acknowledged events in a failover loses steps.
package operation
