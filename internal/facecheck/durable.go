package facecheck

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"reprise/sse"
)

// durableCases are of the protocol Durable Streams. They are not its public tests, which say more of it, and nothing of
// a server that is killed.
var durableCases = []testCase{
	{"a reader goes on by offsets", false, durableOffsets},
	{"a reader that was cut goes on by offsets", false, durableCut(false)},
	{"an EventSource that was cut goes on by itself", false, durableCut(true)},
	{"a long poll gets what comes", false, durablePoll},
	{"a producer that sends again appends once", false, durableProducer(false)},
	{"a closed stream takes nothing and says so", false, durableClosed},
	{"what does not exist is not found", false, durableUnknown},
	{"a producer of a server that was killed appends once", true, durableProducer(true)},
}

// taken are the statuses of an append that the stream has.
var taken = []int{200, 204}

const offsetHeader = "Stream-Next-Offset"

// durableStream makes a stream of JSON for the time of f.
func durableStream(c *client, f func(path string) error) error {
	path := "/check-" + strings.ToLower(rand.Text())
	if _, err := c.do("PUT", path, "", []int{201}, asJSON...); err != nil {
		return err
	}
	err := f(path)
	_, gone := c.do("DELETE", path, "", []int{200, 202, 204})
	return errors.Join(err, gone)
}

// durableAppend appends the numbers from first up to last.
func durableAppend(c *client, path string, first, last int) error {
	for n := first; n <= last; n++ {
		if _, err := c.do("POST", path, fmt.Sprintf("[%d]", n), taken, asJSON...); err != nil {
			return err
		}
	}
	return nil
}

// numbers are the messages that a reader has: 1, 2, 3 and so on.
type numbers int

// add takes messages, and refuses one that is missing or comes twice.
func (n *numbers) add(text []byte) error {
	var more []int
	if err := json.Unmarshal(text, &more); err != nil {
		return fmt.Errorf("%q is no array of the messages that were appended", text)
	}
	for _, m := range more {
		if m != int(*n)+1 {
			return fmt.Errorf("message %d comes behind message %d", m, *n)
		}
		*n++
	}
	return nil
}

func (n *numbers) want(all int) error {
	if int(*n) != all {
		return fmt.Errorf("%d messages came, not %d", *n, all)
	}
	return nil
}

// durableRead reads from an offset to the tail, and returns the offset there.
func durableRead(c *client, path, offset string, got *numbers) (string, error) {
	for {
		a, err := c.do("GET", path+"?offset="+offset, "", ok)
		if err != nil {
			return "", err
		}
		if err := got.add(a.body); err != nil {
			return "", err
		}
		if offset = a.Get(offsetHeader); offset == "" {
			return "", errors.New("an answer has no " + offsetHeader)
		}
		if a.Get("Stream-Up-To-Date") == "true" {
			return offset, nil
		}
	}
}

func durableOffsets(c *client) error {
	return durableStream(c, func(path string) error {
		got, offset := numbers(0), "-1"
		for n := 1; n <= 50; n += 10 {
			err := durableAppend(c, path, n, n+9)
			if err == nil {
				offset, err = durableRead(c, path, offset, &got)
			}
			if err != nil {
				return err
			}
		}
		return got.want(50)
	})
}

// durableCut reads a stream over connections that end behind a few events. An EventSource sends the id of the last of
// them, other clients the offset that the last control event has named.
func durableCut(eventSource bool) func(*client) error {
	return func(c *client) error {
		return durableStream(c, func(path string) error {
			const all = 40
			if err := durableAppend(c, path, 1, all/2); err != nil {
				return err
			}
			got, offset, header := numbers(0), "-1", []string{"Accept", "text/event-stream"}
			for cuts := 0; int(got) < all; cuts++ {
				if cuts == 1 {
					if err := durableAppend(c, path, all/2+1, all); err != nil {
						return err
					}
				}
				next, id, err := durableEvents(c, path+"?live=sse&offset="+offset, header, &got)
				switch {
				case err != nil:
					return err
				case !eventSource:
					offset = next
				case id == "":
					return errors.New("the events have no id, so that an EventSource gets all of them again")
				default:
					header = []string{"Accept", "text/event-stream", "Last-Event-ID", id}
				}
			}
			return got.want(all)
		})
	}
}

// durableEvents reads one block of messages and the control event behind it. It returns the offset and the id to go on
// with.
func durableEvents(c *client, path string, header []string, got *numbers) (offset, id string, err error) {
	res, err := c.send("GET", path, "", ok, header...)
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	in := sse.NewDecoder(res.Body, nil)
	for {
		e, err := in.Next()
		if err != nil {
			return "", "", fmt.Errorf("the events end before a control event: %w", err)
		}
		if e.ID != "" {
			id = e.ID
		}
		switch e.Type {
		case "data":
			if err := got.add(e.Data); err != nil {
				return "", "", err
			}
		case "control":
			var control struct{ StreamNextOffset string }
			if err := json.Unmarshal(e.Data, &control); err != nil || control.StreamNextOffset == "" {
				return "", "", fmt.Errorf("a control event is %q", e.Data)
			}
			return control.StreamNextOffset, id, nil
		}
	}
}

func durablePoll(c *client) error {
	return durableStream(c, func(path string) error {
		a, err := c.do("GET", path+"?offset=-1", "", ok)
		if err != nil {
			return err
		}
		res := make(chan error, 1)
		var got numbers
		go func() {
			a, err := c.do("GET", path+"?live=long-poll&offset="+a.Get(offsetHeader), "", ok)
			if err == nil {
				err = got.add(a.body)
			}
			res <- err
		}()
		if err := c.tick(); err != nil {
			return err
		}
		if err := durableAppend(c, path, 1, 1); err != nil {
			return err
		}
		if err := <-res; err != nil {
			return err
		}
		return got.want(1)
	})
}

// durableProducer appends numbers, and sends each of them twice.
func durableProducer(restart bool) func(*client) error {
	return func(c *client) error {
		return durableStream(c, func(path string) error {
			send := func(n int) error {
				_, err := c.do("POST", path, fmt.Sprintf("[%d]", n), taken, append(asJSON, "Producer-Id", "check",
					"Producer-Epoch", "0", "Producer-Seq", strconv.Itoa(n-1))...)
				return err
			}
			const all = 30
			for n := 1; n <= all; n++ {
				err := send(n)
				if err == nil && restart && n == all/2 {
					err = c.Restart(c.ctx)
				}
				if err == nil {
					err = send(n)
				}
				if err != nil {
					return err
				}
			}
			var got numbers
			if _, err := durableRead(c, path, "-1", &got); err != nil {
				return err
			}
			return got.want(all)
		})
	}
}

func durableClosed(c *client) error {
	return durableStream(c, func(path string) error {
		if err := durableAppend(c, path, 1, 3); err != nil {
			return err
		}
		if _, err := c.do("POST", path, "", taken, append(asJSON, "Stream-Closed", "true")...); err != nil {
			return err
		}
		a, err := c.do("POST", path, "[4]", []int{409}, asJSON...)
		if err != nil {
			return err
		}
		if a.Get("Stream-Closed") != "true" {
			return errors.New("the refusal does not say that the stream is closed")
		}
		res, err := c.send("GET", path+"?live=sse&offset=-1", "", ok)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body) // which ends, since the stream has
		if err == nil && !strings.Contains(string(text), `"streamClosed":true`) {
			err = errors.New("the last control event does not say that the stream is closed")
		}
		return err
	})
}

func durableUnknown(c *client) error {
	for _, query := range []string{"?offset=-1", "?live=sse&offset=-1", "?live=long-poll&offset=-1"} {
		if _, err := c.do("GET", "/check-"+strings.ToLower(rand.Text())+query, "", []int{404}); err != nil {
			return err
		}
	}
	return nil
}
