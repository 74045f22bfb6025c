package doctor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// patience bounds how long a server may take to answer.
const patience = 3 * time.Second

// checkPort tries to listen, and where another program does, asks which one.
func checkPort(ctx context.Context, address string) Finding {
	const name = "port"
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil {
		listener.Close()
		return ok(name, "%s is free", address)
	}
	answer, askErr := ask(ctx, address) //nolint:bodyclose // ask has closed it
	if askErr != nil || answer.Header.Get("X-Request-Id") == "" {
		return fail(name, "Take another one with --listen, or 127.0.0.1:0 for any.", "%v", err)
	}
	return ok(name, "a server answers on %s", address)
}

// ask asks the server at an address whether it lives.
func ask(ctx context.Context, address string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	return answer, answer.Body.Close()
}

// checkStore opens the store as the server would.
func checkStore(ctx context.Context, opts *Options) Finding {
	const name = "store"
	err := opts.OpenStore(ctx)
	switch {
	case err == nil:
		return ok(name, "%s opens", opts.Store)
	case errors.Is(err, opts.InUse):
		return ok(name, "%s: a server has it open", opts.Store)
	}
	return fail(name, "Mend or move it, or name another with --store.", "%v", err)
}

// checkSteps compares the clock of the day with the one that only goes forward. They
// part while the time is set.
func checkSteps() Finding {
	const (
		name    = "clock"
		watched = 200 * time.Millisecond
		most    = 50 * time.Millisecond
	)
	start := time.Now()
	<-time.After(watched)
	end := time.Now()
	steady, wall := end.Sub(start), end.Round(0).Sub(start.Round(0))
	if d := (wall - steady).Abs(); d > most {
		return warn(name, "Let the time be slewed, not set; ages of streams are counted by it.",
			"the time jumped by %v within %v", d, watched)
	}
	if start.Year() < 2025 {
		return fail(name, "Set the time; ages of streams are counted by it.", "it says %v", start.Format(time.DateTime))
	}
	return ok(name, "%s, runs evenly", start.UTC().Format(time.RFC3339))
}

// checkDate compares our clock with the clock of a server that runs, if one does.
func checkDate(ctx context.Context, address string) []Finding {
	const (
		name = "server clock"
		most = 3 * time.Second // the header has whole seconds
	)
	answer, err := ask(ctx, address) //nolint:bodyclose // ask has closed it
	if err != nil {
		return nil
	}
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return nil
	}
	if d := time.Since(date); d.Abs() > most {
		return []Finding{warn(name, "Set both clocks by NTP.", "the server's is %v away from ours",
			d.Round(time.Second))}
	}
	return []Finding{ok(name, "agrees with ours")}
}

// checkWaiting asks the server that runs, if one does, for commands that wait for storage.
func checkWaiting(ctx context.Context, opts *Options) []Finding {
	const name = "storage"
	if opts.Waiting == nil {
		return nil
	}
	n, since, err := opts.Waiting(ctx)
	switch {
	case err != nil:
		return []Finding{warn(name, "", "the server does not say whether commands wait for it: %v", err)}
	case n > 0:
		return []Finding{warn(name,
			"End or remove streams, or raise --max-total-bytes or the quota; reprise cancel ends a command.",
			"commands wait for room for their output: %d, the first since %s", n, since.UTC().Format(time.RFC3339))}
	}
	return []Finding{ok(name, "no command waits for room")}
}
