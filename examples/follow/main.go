// Command follow runs a command and shows its output with a number before each line,
// over any number of lost connections. Killed and started again, it goes on after
// the last line that it has shown: the cursor is in the file named by -cursor.
//
//	go run ./examples/follow -id build-42 -cursor cursor.txt -- make test
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"reprise/client"
)

func main() {
	id := flag.String("id", "example", "id of the execution: the same one attaches to the same run")
	cursor := flag.String("cursor", "cursor.txt", "file that keeps the position")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := follow(ctx, *id, *cursor, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func follow(ctx context.Context, id, cursor string, argv []string) error {
	c, err := client.New(nil) // REPRISE_URL and REPRISE_TOKEN, or the server of this machine
	if err != nil {
		return err
	}
	if _, err := c.Start(ctx, client.StartRequest{ID: id, Argv: argv}); err != nil {
		return err
	}
	opts := &client.FollowOptions{Cursors: client.FileCursor(cursor)}
	for event, err := range c.Follow(ctx, id, opts) {
		switch {
		case err != nil:
			return err
		case event.Gap != nil:
			fmt.Printf("%d events are no longer kept\n", event.Gap.Missed)
		case event.End != nil:
			fmt.Println("ended:", event.End.Outcome)
		case event.Type == "stdout", event.Type == "stderr":
			fmt.Printf("%4d %s", event.Seq, event.Data)
		}
	}
	return nil
}
