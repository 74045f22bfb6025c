package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/client"
)

const output = "0123456789\x00\xff\r\nthe end"

// Cut anywhere, three times in a row, the bytes of a channel are given once.
func TestOutputCutAtEveryByte(t *testing.T) {
	for _, follow := range []bool{false, true} {
		for n := range 140 {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(i int, r *http.Request) ([]byte, bool) {
					response := outputResponse(r, follow)
					if i < 3 {
						response = response[:min(n, len(response))]
					}
					return response, false
				}}
				body := w.client(t, client.Options{}).Output(t.Context(), "x", "stdout",
					&client.OutputOptions{Offset: 2, Follow: follow})
				got, err := io.ReadAll(body)
				if err != nil || string(got) != output[2:] {
					t.Errorf("follow %t, cut after %d bytes: %q, %v", follow, n, got, err)
				}
				body.Close()
			})
		}
	}
}

// outputResponse answers as the API does. A followed response is one whose end a cut looks like.
func outputResponse(r *http.Request, follow bool) []byte {
	if r.URL.Path == "/base/v1/executions/x" {
		return jsonAnswer(200, fmt.Sprintf(`{"id":"x","status":"ended","bytes":{"stdout":%d,"stderr":0}}`, len(output)))
	}
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	rest := output[offset:]
	if follow {
		return plain(200, "Content-Type: application/octet-stream\r\n", rest)
	}
	if offset > 2 {
		rest += "and more that has come meanwhile"
	}
	return plain(200, fmt.Sprintf("Content-Type: application/octet-stream\r\nContent-Length: %d\r\n", len(rest)), rest)
}

func TestOutputErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(problemAnswer(404, "", "not_found", false)).client(t, client.Options{})
		body := c.Output(t.Context(), "x", "stdout", nil)
		for range 2 {
			if _, err := body.Read(make([]byte, 1)); !errors.Is(err, reprise.ErrNotFound) {
				t.Error(err)
			}
		}
		body.Close()
		for _, bad := range []io.ReadCloser{
			c.Output(t.Context(), "", "stdout", nil), c.Output(t.Context(), "x", "stdin", nil),
		} {
			if _, err := bad.Read(make([]byte, 1)); !errors.Is(err, reprise.ErrInvalid) {
				t.Error(err)
			}
			bad.Close()
		}
	})
}

// Close lets go of a Read that waits.
func TestOutputClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(int, *http.Request) ([]byte, bool) {
			return plain(200, "Content-Type: application/octet-stream\r\n", "a"), true
		}}
		body := w.client(t, client.Options{}).Output(t.Context(), "x", "stdout", &client.OutputOptions{Follow: true})
		time.AfterFunc(time.Minute, func() { body.Close() })
		got, err := io.ReadAll(body)
		if string(got) != "a" || err == nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}
