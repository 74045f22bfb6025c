package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"reprise"
	"reprise/client"
)

// ranBefore is the outcome of an execution whose output has expired, which the server only remembers, in place of the
// error of a start or a reader. Other errors are returned unchanged.
func ranBefore(ctx context.Context, server *client.Client, id string, err error) error {
	if !errors.Is(err, reprise.ErrExpired) {
		return err
	}
	x, showErr := server.Show(ctx, id)
	if showErr != nil || !x.Expired {
		return err
	}
	tellRanBefore(&x)
	return outcome(endOf(&x))
}

// tellRanBefore says on stderr why there is no output.
func tellRanBefore(x *client.Execution) {
	fmt.Fprintf(os.Stderr, "reprise: %s has run before and ended %s ago (%s); its %s\n", x.ID,
		roughly(time.Since(x.Ended.Time)), statusText(x), expiredText(x))
}

// expiredText says that the output of an execution is no longer kept, "" if it is.
func expiredText(x *client.Execution) string {
	switch {
	case !x.Expired:
		return ""
	case x.ExpiredAt.IsZero():
		return "output removed to make room"
	}
	return "output expired " + roughly(time.Since(x.ExpiredAt.Time)) + " ago"
}

// roughly is a time span in its largest unit, for example "2 h".
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprint(int(d.Hours()/24), " days")
	case d >= time.Hour:
		return fmt.Sprint(int(d.Hours()), " h")
	case d >= time.Minute:
		return fmt.Sprint(int(d.Minutes()), " min")
	}
	return fmt.Sprint(max(0, int(d.Seconds())), " s")
}
