// Package client is the Go client of a Reprise server: it runs commands, follows
// them and other streams over connections that break, and gives each event once.
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
// [Client.Follow], [Client.FollowStream] and [Client.Run] are loops over events. The
// client reconnects by itself, at once after a connection that has brought something, then waits
// as the server asks and longer each time, and
// goes on after the last event that the loop was given. It proves by seq that
// nothing is missing and nothing comes twice or out of order. What the server no
// longer keeps is told as an event of type "gap", or ends the loop with a [*GapError].
//
// A loop ends without an error after the end event and in no other way. A connection that
// ends without it was lost, whatever the way; only the status 204, which the server gives a
// reader that has had the end already, is as good. An error is the last thing that
// a loop yields: the cause of the cancelled context, a [*Error], or a
// *GapError. After it, and after a break, nothing of the loop is left running.
//
// # Going on after the process was killed
//
// With a [CursorStore] a loop begins where the last one ended. An event counts as handled when the body of the loop
// has ended or continued with it. A break, a return or a panic inside the body leaves the event unhandled, and it is
// given again the next time. The cursor of the last handled event is saved every 100 ms ([FollowOptions].SaveEvery),
// when a connection is lost and when the loop ends. So between processes each event is handled at least once. What
// comes again is the event that was being handled and, if the process was killed, those that it had handled since the
// last save. With a negative SaveEvery the cursor is saved before the next event is given, at the cost of a save for
// each. For exactly once keep [Event.Cursor] in the same transaction as what the event has caused, and begin with it
// as FollowOptions.After.
//
// # Errors
//
// Every refusal of the server is a problem.Problem in the tree of the error, so that
// errors.Is finds reprise.ErrNotFound and the others. [Retryable] tells whether trying again
// may help; the client has done so for Options.GiveUp when it returns such an error.
//
// Calls that change something can be tried again: a start and a publish carry a
// key of their own, stdin its offset. [Client.Signal] alone is not sent again once it
// may have arrived.
package client
