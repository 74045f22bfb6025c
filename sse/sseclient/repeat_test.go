package sseclient_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"reprise/sse/sseclient"
)

// What is not idempotent is sent once, unless it was refused unread or the program allows more.
func TestRequestsThatAreNotIdempotentAreNotRepeated(t *testing.T) {
	key := http.Header{"Idempotency-Key": {"1"}}
	for name, tt := range map[string]struct {
		opts   sseclient.Options
		first  int // the status of the first answer
		events int
		err    error
		want   int // requests
	}{
		"POST":                 {sseclient.Options{Method: "POST"}, 200, 1, sseclient.ErrNotRepeated, 1},
		"PATCH":                {sseclient.Options{Method: "PATCH"}, 200, 1, sseclient.ErrDropped, 1},
		"POST, 503":            {sseclient.Options{Method: "POST"}, 503, 0, sseclient.ErrNotRepeated, 1},
		"POST, 429":            {sseclient.Options{Method: "POST"}, 429, 0, nil, 2},
		"POST that may":        {sseclient.Options{Method: "POST", Repeat: true}, 200, 1, nil, 2},
		"POST with a key":      {sseclient.Options{Method: "POST", Header: key}, 200, 1, nil, 2},
		"GET":                  {sseclient.Options{}, 200, 1, nil, 2},
		"REPORT":               {sseclient.Options{Method: "REPORT"}, 200, 1, nil, 2},
		"POST, a wrong status": {sseclient.Options{Method: "POST"}, 404, 0, &sseclient.StatusError{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{answer: func(i int, w http.ResponseWriter, _ *http.Request) {
					switch {
					case i > 0:
						w.WriteHeader(http.StatusNoContent)
					case tt.first != http.StatusOK:
						w.WriteHeader(tt.first)
					default:
						stream(w, "data: 1\n\n")
					}
				}}
				events, err := collect(t.Context(), s.open(t, tt.opts))
				ok := errors.Is(err, tt.err)
				if _, isStatus := tt.err.(*sseclient.StatusError); isStatus {
					_, ok = errors.AsType[*sseclient.StatusError](err)
					ok = ok && !errors.Is(err, sseclient.ErrNotRepeated)
				}
				if !ok || s.count() != tt.want || len(events) != tt.events {
					t.Errorf("%d requests, want %d; %d events; %v", s.count(), tt.want, len(events), err)
				}
			})
		})
	}
}
