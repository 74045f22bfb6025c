// Package client is the Go client of a Reprise server. It runs commands, follows them and other streams over
// connections that break, and yields each event once.
//
//	c, err := client.New(nil) // REPRISE_URL and REPRISE_TOKEN, or the server of this machine
//	if err != nil {
//		return err
//	}
//	run := client.StartRequest{Argv: []string{"make", "test"}}
//	for event, err := range c.Run(ctx, run, nil) {
//		switch {
//		case err != nil:
//			return err
//		case event.End != nil:
//			fmt.Println("outcome", event.End.Outcome)
//		case event.Type == "stdout":
//			os.Stdout.Write(event.Data)
//		}
//	}
//
// # Following
//
// [Client.Follow], [Client.FollowStream] and [Client.Run] are loops over events. The client reconnects by itself and
// continues after the last event that the loop was given. It reconnects at once after a connection that delivered
// something; otherwise it waits as the server asks, longer with each failure. It checks seq to prove that no event is
// missing, repeated or out of order. If the server no longer keeps some events, the loop yields an event of type "gap"
// or ends with a [*GapError].
//
// A loop ends without an error only after the end event, or at the status 204 with the outcome of the stream, which the
// server sends to a reader that already has the end event. A 204 without it is something else's. Any other end of a
// connection is a lost connection. An error is the last thing that a loop
// yields: the cause of the cancelled context, a [*Error], or a *GapError. After an error, and after a break, nothing of
// the loop is left running.
//
// # Continuing after the process was killed
//
// With a [CursorStore] a loop begins where the last one ended. An event counts as handled when the body of the loop
// has ended or continued with it. A break, a return or a panic inside the body leaves the event unhandled, and the next
// loop yields it again. The cursor of the last handled event is saved every 100 ms ([FollowOptions].SaveEvery), when a
// connection is lost and when the loop ends.
//
// So each event is handled at least once across processes. The event that was being handled comes again. If the process
// was killed, the events handled since the last save come again too. With a negative SaveEvery the cursor is saved
// before the next event is yielded, at the cost of one save per event. For exactly once, store [Event.Cursor] in the
// same transaction as the effects of the event, and begin with it as FollowOptions.After.
//
// # Errors
//
// Every refusal of the server is a problem.Problem in the tree of the error, so errors.Is finds reprise.ErrNotFound and
// the others. [Retryable] reports whether a retry may succeed. The client has retried for Options.GiveUp before it
// returns such an error.
//
// Most calls that change something can be repeated: a start and a publish carry a key of their own, stdin its offset.
// [Client.Signal], [Client.MoveFile] and those that make something without an id, such as [Schedules.Create], are not
// sent again once they may have arrived.
package client
