package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"reprise/client"
)

// A run of a command whose output and outcome arrive whatever the connection does.
func ExampleClient_Run() {
	c, err := client.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	run := client.StartRequest{Argv: []string{"make", "test"}}
	for event, err := range c.Run(context.Background(), run, nil) {
		switch {
		case err != nil:
			log.Fatal(err)
		case event.Gap != nil:
			log.Printf("%d events are no longer kept", event.Gap.Missed)
		case event.End != nil:
			fmt.Println(event.End.Outcome)
		case event.Type == "stdout":
			os.Stdout.Write(event.Data)
		}
	}
}

// A process that goes on where it was when it was killed.
func ExampleFileCursor() {
	c, err := client.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	opts := &client.FollowOptions{Cursors: client.FileCursor("orders.cursor")}
	for event, err := range c.FollowStream(context.Background(), "orders", opts) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s\n", event.Seq, event.Data) // then the cursor is saved
	}
}

// A backup each night, by the clock of Berlin.
func ExampleClient_Schedules() {
	c, err := client.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	made, err := c.Schedules().Create(context.Background(), client.ScheduleRequest{
		Cron: "30 2 * * *", Zone: "Europe/Berlin", Execution: client.StartRequest{Argv: []string{"backup"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(made.ID, made.Next)
}
