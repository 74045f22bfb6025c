// Package replica lets the processes that share one store know each other: who is
// there, who has gone, and how to ask another one for something. All of that goes
// through streams of a reprise.Log, so replicas need no addresses and no ports of their own.
//
//	member, err := replica.Join(ctx, log, nil)
//	defer member.Leave(ctx)
//
//	member.Serve("echo", func(ctx context.Context, from string, body []byte) ([]byte, error) {
//		return body, nil
//	})
//	answer, err := member.Call(ctx, "replica-k3v9x2m7qa", "echo", []byte("hello"))
//
// # Who is there
//
// A replica has a random name and two streams of the tenant [Tenant]: "replica:<name>",
// to which it appends a beat every Options.Beat, and "inbox:<name>". Every
// replica lists the first kind every Options.Beat and remembers, by its own monotonic
// clock, when each of them last had a new event. No clocks are compared.
//
// A replica is dead when no new beat of it was seen for Options.TTL, in
// which the observer listed often enough and its own beats were acknowledged. An observer that
// could not reach the store, or stood still, begins to count anew. So nobody is
// taken for dead because the store was away.
//
// To take a replica for dead is to end its stream. That makes it a fact which all see in the
// store, the one concerned too, should it only have been slow: its next beat is refused
// with reprise.ErrEnded, its [Watch] is told Fenced, and it joins again under
// a new name. A replica that leaves ends its stream itself.
//
// That a replica is taken for dead does not stop it. What must have one writer needs a
// reprise.Owner with a fence as well, which the store checks with each append.
//
// # Calls
//
// A call is an event in the inbox of the callee, and the answer one in that of the
// caller. A call that was not answered in time may have been carried out or not; one that
// the callee has not begun by then is cancelled, unless the store cannot be reached.
package replica
