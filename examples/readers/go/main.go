// Command go puts LaunchDarkly's eventsource behind the service contract of "reprise check-client", as a reader of any
// source:
//
//	go -C examples/readers/go build -o /tmp/reader . && reprise check-client -- /tmp/reader
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/launchdarkly/eventsource"
)

// command is a command of the suite.
type command struct {
	Do, ID, Source, Token, After string

	MinWait int `json:"min_wait_ms"`
	MaxWait int `json:"max_wait_ms"`
	Idle    int `json:"idle_ms"`
}

var turn sync.Mutex

func say(message any) {
	line, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	turn.Lock()
	defer turn.Unlock()
	fmt.Printf("%s\n", line)
}

func main() {
	say(map[string]any{"hello": map[string]any{"name": "eventsource (Go)", "kind": "sse", "can": []string{}}})
	stops := map[string]chan struct{}{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		if c.Do == "stop" {
			close(stops[c.ID])
			continue
		}
		stop := make(chan struct{})
		stops[c.ID] = stop
		go func() {
			if err := follow(&c, stop); err != nil {
				say(map[string]any{"id": c.ID, "error": map[string]string{"code": "", "text": err.Error()}})
			}
			say(map[string]any{"id": c.ID, "done": true})
		}()
	}
}

// follow reads a source until it answers 204.
func follow(c *command, stop chan struct{}) error {
	request, err := http.NewRequest(http.MethodGet, c.Source, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	stream, err := eventsource.SubscribeWithRequestAndOptions(request,
		eventsource.StreamOptionLastEventID(c.After),
		eventsource.StreamOptionInitialRetry(ms(c.MinWait)),
		eventsource.StreamOptionUseBackoff(ms(c.MaxWait)),
		eventsource.StreamOptionReadTimeout(ms(c.Idle)),
		eventsource.StreamOptionCanRetryFirstConnection(-1),
		eventsource.StreamOptionErrorHandler(func(err error) eventsource.StreamErrorHandlerResult {
			return eventsource.StreamErrorHandlerResult{CloseNow: isEnd(err)}
		}))
	if err != nil {
		if isEnd(err) {
			return nil
		}
		return err
	}
	defer stream.Close()
	for {
		select {
		case <-stop:
			return nil
		case e, ok := <-stream.Events:
			if !ok {
				return nil
			}
			kind := e.Event()
			if kind == "" {
				kind = "message"
			}
			event := map[string]any{"type": kind, "cursor": e.Id(), "data": []byte(e.Data())}
			say(map[string]any{"id": c.ID, "event": event})
		}
	}
}

// isEnd reports whether err is an answer of 204, with which a source ends.
func isEnd(err error) bool {
	answer, ok := errors.AsType[eventsource.SubscriptionError](err)
	return ok && answer.Code == http.StatusNoContent
}
