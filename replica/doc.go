// Package replica lets the processes that share one store find each other, detect
// failures and call each other. All of this uses
// streams of a reprise.Log, so replicas need no addresses and no ports of their own.
//
//	member, err := replica.Join(ctx, log, nil)
//	defer member.Leave(ctx)
//
//	member.Serve("echo", func(ctx context.Context, from string, body []byte) ([]byte, error) {
//		return body, nil
//	})
//	answer, err := member.Call(ctx, "replica-k3v9x2m7qa", "echo", []byte("hello"))
//
// # Membership
//
// A replica has a random name and two streams of the tenant [Tenant]: "replica:<name>",
// to which it appends a heartbeat every Options.Beat, and "inbox:<name>". Every
// replica lists the first kind every Options.Beat and records, by its own monotonic
// clock, when each of them last had a new event. The clocks of two machines are never compared.
//
// A replica is declared dead when an observer saw no new heartbeat of it for Options.TTL.
// During that time the observer must have listed often enough and its own heartbeats must have been
// acknowledged; otherwise it starts counting again. So an outage of the store
// declares no replica dead.
//
// An observer declares a replica dead by ending its stream, which everyone sees in the
// store. A replica that was only slow sees it too: its next heartbeat is refused
// with reprise.ErrEnded, its [Watch] gets Fenced, and it joins again under
// a new name. A replica that leaves ends its stream itself.
//
// Declaring a replica dead does not stop it. Data with a single writer therefore also needs a
// reprise.Owner with a fence, which the store checks with each append.
//
// # Calls
//
// A call is an event in the inbox of the callee, and the answer an event in the caller's.
// A call without an answer in time may or may not have been carried out. If
// the callee has not begun it by then, it is cancelled, unless the store cannot be reached.
package replica
