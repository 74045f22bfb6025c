package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"reprise/client"
)

// bare is the program without arguments: the newest executions where a server answers, and how to begin otherwise.
func bare() int {
	server, err := environmentConnect().clientWith(client.Options{GiveUp: -1})
	if err != nil {
		return report(os.Stderr, err, nil)
	}
	if !answers(server.URL()) {
		fmt.Fprintf(stdout, `%[1]s serve                 starts a server, with a console for the browser
%[1]s run -- make           runs a command on it, as if it ran here
%[1]s --help                lists all commands
`, self())
		return report(os.Stderr, stdout.unwritten(), nil)
	}
	code := Main([]string{"list", "--limit", "10", "--quiet"})
	if code == 0 {
		fmt.Fprintf(os.Stderr, "reprise: the newest executions; %s --help lists all commands\n", self())
	}
	return code
}

// answers reports whether a server answers at once.
func answers(url string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", http.NoBody)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode < http.StatusInternalServerError
}
