package client_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/client"
	"reprise/sse"
)

// What a server makes of an event, the client makes into the event again.
func TestEventsSurviveTheWire(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 30, 0, 123e6, time.UTC)
	code, signal := 3, "SEGV"
	for _, tt := range []struct {
		sent reprise.Event
		want client.Event
	}{
		{
			reprise.Event{Data: []byte("plain\ntext \"\\ \u2028 é \x00\x7f")},
			client.Event{Data: []byte("plain\ntext \"\\ \u2028 é \x00\x7f")},
		},
		{reprise.Event{Data: nil}, client.Event{Data: []byte{}}},
		{reprise.Event{Data: []byte{0xff, 0, 0xfe}}, client.Event{Data: []byte{0xff, 0, 0xfe}}},
		{
			reprise.Event{Data: []byte(`{"text":"x"}`), Format: reprise.FormatJSON},
			client.Event{Data: []byte(`{"text":"x"}`), IsJSON: true},
		},
		{
			reprise.Event{Data: []byte(`null`), Format: reprise.FormatJSON},
			client.Event{Data: []byte(`null`), IsJSON: true},
		},
		{
			reprise.Event{Type: "started", Data: []byte(`{"id":"x","pid":7}`), Format: reprise.FormatMembers},
			client.Event{Started: &client.Started{ID: "x", PID: 7}},
		},
		{
			reprise.Event{
				Type:   "end",
				Data:   []byte(`{"outcome":"signaled","exit_code":3,"signal":"SEGV","bytes":{"stdout":1,"stderr":2},"new":[]}`),
				Format: reprise.FormatMembers,
			},
			client.Event{End: &client.End{
				Outcome:  "signaled",
				ExitCode: &code,
				Signal:   &signal,
				Bytes:    client.Bytes{Stdout: 1, Stderr: 2},
			}},
		},
		{reprise.Event{Type: "started", Data: []byte("a user's own")}, client.Event{Data: []byte("a user's own")}},
	} {
		tt.sent.Seq, tt.sent.Time = 7, at
		if tt.sent.Type == "" {
			tt.sent.Type = "note"
		}
		tt.want.Seq, tt.want.Time, tt.want.Type, tt.want.Cursor = 7, at, tt.sent.Type, cursorAt(7, "A")
		object := tt.sent.AppendJSON(nil)
		if tt.want.Data == nil {
			tt.want.Data, tt.want.IsJSON = object, true
		}
		synctest.Test(t, func(t *testing.T) {
			frame := sse.AppendEvent(nil, sse.Event{ID: tt.want.Cursor, Type: tt.sent.Type, Data: object})
			c := script(events(string(frame))).client(t, client.Options{})
			for got, err := range c.Follow(t.Context(), "x", &client.FollowOptions{After: "earliest"}) {
				if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
					t.Errorf("%s: %v (-want +got):\n%s", object, err, diff)
				}
				break
			}
		})
	}
}

// Whatever a server sends, a loop ends, and what it has given is in order.
func FuzzFollow(f *testing.F) {
	for _, r := range recordedRun.frames {
		f.Add([]byte(frame(r.seq, "A", r.kind, strings.ReplaceAll(r.data, "\n", "\ndata: "))))
	}
	f.Add([]byte("id: 5." + strings.Repeat("A", 16) + ".0123456789ABC\n\nevent: gap\ndata: {\"code\":\"cursor_expired\"}\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		transport := roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: 200,
				Header:     http.Header{"Content-Type": {"text/event-stream"}},
				Body:       readCloser{bytes.NewReader(body)},
			}, nil
		})
		c, err := client.New(
			&client.Options{URL: "http://reprise.test", Token: "-", HTTPClient: &http.Client{Transport: transport}},
		)
		if err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		for event, err := range c.Follow(t.Context(), "x", &client.FollowOptions{GiveUp: -1}) {
			switch {
			case err != nil:
			case event.Gap != nil:
				last = 0
			case event.Seq <= last:
				t.Fatalf("event %d after %d", event.Seq, last)
			default:
				last = event.Seq
			}
		}
	})
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// One turn follows a stream of 1,000 events.
func BenchmarkFollow(b *testing.B) {
	for name, data := range map[string]string{
		"text":   `"text":"` + strings.Repeat("x", 199) + `\n"`,
		"base64": `"base64":"` + strings.Repeat("xxxx", 67) + `"`,
		"json":   `"data":{"n":[1,2,3],"s":"` + strings.Repeat("x", 180) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			var body []byte
			for i := 1; i <= 1000; i++ {
				body = append(body,
					frame(i, "A", "stdout", fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T09:30:00.000Z",%s}`, i, data))...)
			}
			body = append(body, end(1001)...)
			transport := roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: 200,
					Header:     http.Header{"Content-Type": {"text/event-stream"}},
					Body:       readCloser{bytes.NewReader(body)},
				}, nil
			})
			c, err := client.New(
				&client.Options{URL: "http://reprise.test", Token: "-", HTTPClient: &http.Client{Transport: transport}},
			)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				n := 0
				for _, err := range c.Follow(b.Context(), "x", nil) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 1001 {
					b.Fatalf("%d events", n)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/1001, "ns/event")
		})
	}
}
