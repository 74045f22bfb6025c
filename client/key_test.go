package client_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"reprise"
	"reprise/client"
)

// TestIdempotencyKeyStandsForTheID: the same key is the same execution, whoever sends it. Beside an id it is a part of
// the request.
func TestIdempotencyKeyStandsForTheID(t *testing.T) {
	url := liveServer(t)
	open := func() *client.Client {
		c, err := client.New(&client.Options{URL: url, Token: liveToken})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	runs := filepath.Join(t.TempDir(), "runs")
	run := client.StartRequest{IdempotencyKey: "k", Command: "echo run >>" + runs}
	first, err := open().Start(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		events, err := collect(open().Run(t.Context(), run, nil))
		if err != nil || len(events) == 0 || events[len(events)-1].End == nil {
			t.Fatalf("%+v, %v", events, err)
		}
	}
	if again, err := open().Start(t.Context(), run); err != nil || again.ID != first.ID {
		t.Errorf("%q, %v, want %q", again.ID, err, first.ID)
	}
	if text, err := os.ReadFile(runs); err != nil || string(text) != "run\n" {
		t.Errorf("it ran as %q, %v", text, err)
	}
	run.ID = "named"
	if named, err := open().Start(t.Context(), run); err != nil || named.ID != "named" {
		t.Errorf("with an id: %q, %v", named.ID, err)
	}
	run.IdempotencyKey = "other"
	if _, err := open().Start(t.Context(), run); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("with an id and another key: %v", err)
	}
	if _, err := exec.LookPath("python3"); err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no Python")
	}
	q := client.InterpreterRequest{Language: "python", IdempotencyKey: "i"}
	one, err := open().OpenInterpreter(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := open().OpenInterpreter(t.Context(), q); err != nil || two.ID != one.ID {
		t.Errorf("%q, %v, want %q", two.ID, err, one.ID)
	}
}
