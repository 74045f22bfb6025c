package client_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/client"
)

// recording is a stream as a server would send it, with all that may stand in one.
type recording struct {
	frames []recorded
	// earliest is the seq before the first kept event of epoch.
	earliest int
	epoch    string
}

// recorded is what is sent for one event, and the noise behind it.
type recorded struct {
	seq  int
	kind string
	data string // with "\n" where the frame has more than one data line
	then string
}

var recordedRun = recording{epoch: "A", frames: []recorded{
	{1, "started", `{"seq":1,"time":"2026-11-20T09:30:00.000Z","id":"x","argv":["make"],"pid":7}`, ""},
	{2, "stdout", `{"seq":2,"time":"2026-11-20T09:30:00.001Z","text":"one\ntwo\r\n\u0000é"}`, ":\n"},
	{3, "stderr", `{"seq":3,"time":"2026-11-20T09:30:00.002Z","base64":"/wD+"}`, "retry: 20\n"},
	{4, "note", "{\"seq\":4,\n\"time\":\"2026-11-20T09:30:00.003Z\",\n\"data\":{\"a\":[1,2]}}", ": still here\n\n"},
	{5, "stdout", `{"seq":5,"time":"2026-11-20T09:30:00.004Z","text":""}`, ""},
	{
		6, "end",
		`{"seq":6,"time":"2026-11-20T09:30:00.005Z","outcome":"exited","exit_code":0,"signal":null,"duration_ms":5,"usage":null,"bytes":{"stdout":9,"stderr":3}}`,
		"",
	},
}}

// response answers r as the contract says.
func (rec *recording) response(
	r *http.Request, encode func(status int, header string, chunks ...string) []byte,
) []byte {
	after, gap := rec.earliest, ""
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		c, err := reprise.ParseCursor(id)
		last := rec.frames[len(rec.frames)-1].seq
		switch {
		case err != nil:
			return problemAnswer(400, "", "cursor_malformed", false)
		case string(c.Epoch[:1]) != rec.epoch || int(c.Seq) < rec.earliest:
			gap = fmt.Sprintf(`{"code":"cursor_expired","earliest":%q,"tail":%q,"missed":%d}`,
				cursorAt(rec.earliest, rec.epoch), cursorAt(last, rec.epoch), rec.earliest-int(c.Seq))
		case int(c.Seq) >= last:
			return plain(204, "Stream-Outcome: exited\r\n", "")
		default:
			after = int(c.Seq)
		}
	}
	types := r.URL.Query().Get("types")
	chunks := []string{"retry: 1000\n"}
	if gap != "" {
		chunks = append(chunks, frame(rec.earliest, rec.epoch, "gap", gap))
	}
	for _, f := range rec.frames {
		switch {
		case f.seq <= after:
		case types != "" && !strings.Contains(","+types+",", ","+f.kind+",") && f.seq%2 == 0:
			chunks = append(chunks, frame(f.seq, rec.epoch, "cursor", `{"cursor":"`+cursorAt(f.seq, rec.epoch)+`"}`))
		case types != "" && !strings.Contains(","+types+",", ","+f.kind+","):
			chunks = append(chunks, "id: "+cursorAt(f.seq, rec.epoch)+"\n\n")
		default:
			chunks = append(chunks,
				frame(f.seq, rec.epoch, f.kind, strings.ReplaceAll(f.data, "\n", "\ndata: "))+f.then)
		}
	}
	return encode(200, sseHeader, chunks...)
}

// unmarked ends a response with its connection, so that a cut looks like a clean end.
func unmarked(status int, header string, chunks ...string) []byte {
	return plain(status, header, strings.Join(chunks, ""))
}

// crlf is a server that ends lines as HTTP does.
func crlf(status int, header string, chunks ...string) []byte {
	return plain(status, header, strings.ReplaceAll(strings.Join(chunks, ""), "\n", "\r\n"))
}

// zipped is a server that compresses and flushes after each chunk. Its chunks are cut anywhere.
func zipped(status int, header string, chunks ...string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, chunk := range chunks {
		if _, err := io.WriteString(z, chunk); err != nil {
			panic(err)
		}
		if err := z.Flush(); err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	body := b.String()
	return chunked(status, header+"Content-Encoding: gzip\r\n", body[:len(body)/3], body[len(body)/3:])
}

// G1, G2, G3, G4: however the connection is cut, at every byte, the loop is given each event once.
func TestCutAtEveryByte(t *testing.T) {
	expired := recordedRun
	expired.frames, expired.earliest = recordedRun.frames[2:], 2
	for _, tt := range []struct {
		name   string
		rec    *recording
		opts   client.FollowOptions
		encode func(int, string, ...string) []byte
		want   string
	}{
		{"chunked", &recordedRun, client.FollowOptions{}, chunked, "1 started,2 stdout,3 stderr,4 note,5 stdout,6 end"},
		{
			"unmarked", &recordedRun,
			client.FollowOptions{},
			unmarked,
			"1 started,2 stdout,3 stderr,4 note,5 stdout,6 end",
		},
		{"gzip", &recordedRun, client.FollowOptions{}, zipped, "1 started,2 stdout,3 stderr,4 note,5 stdout,6 end"},
		{"CRLF", &recordedRun, client.FollowOptions{}, crlf, "1 started,2 stdout,3 stderr,4 note,5 stdout,6 end"},
		{"filtered", &recordedRun, client.FollowOptions{Types: []string{"stderr"}}, unmarked, "3 stderr,6 end"},
		{"resumed", &recordedRun, client.FollowOptions{After: cursorAt(3, "A")}, chunked, "4 note,5 stdout,6 end"},
		{
			"behind the window", &expired,
			client.FollowOptions{After: cursorAt(1, "A")},
			unmarked,
			"0 gap,3 stderr,4 note,5 stdout,6 end",
		},
		{
			"from the first, which is gone", &expired,
			client.FollowOptions{},
			unmarked,
			"0 gap,3 stderr,4 note,5 stdout,6 end",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, size := follow(t, tt.rec, tt.opts, tt.encode, -1, 0)
			if got := seqs(want); got != tt.want {
				t.Fatalf("without a cut: %s, want %s", got, tt.want)
			}
			for n := range size {
				// Once, and three times in a row: the later cuts hit what was resumed.
				for _, cuts := range []int{1, 3} {
					if race && (cuts > 1 || tt.name != "unmarked") && n%29 != cuts {
						continue
					}
					got, _ := follow(t, tt.rec, tt.opts, tt.encode, n, cuts)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("%d cuts after %d bytes (-want +got):\n%s", cuts, n, diff)
					}
				}
			}
		})
	}
}

// follow reads a recording to its end, with the first responses cut after n bytes, and
// returns the events and the size of the first response.
func follow(
	t *testing.T, rec *recording, opts client.FollowOptions, encode func(int, string, ...string) []byte, n, cuts int,
) (got []client.Event, size int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(i int, r *http.Request) ([]byte, bool) {
			response := rec.response(r, encode)
			if i == 0 {
				size = len(response)
			}
			if i < cuts {
				response = response[:min(n, len(response))]
			}
			return response, false
		}}
		cursors := new(client.MemoryCursor)
		opts.Cursors = cursors
		c := w.client(t, client.Options{})
		var err error
		if got, err = collect(c.Follow(t.Context(), "x", &opts)); err != nil {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
		if saved, _ := cursors.Load(t.Context()); saved != cursorAt(6, "A") {
			t.Errorf("cut after %d bytes: the saved cursor is %q", n, saved)
		}
	})
	return got, size
}

// A process that is killed while it handles an event, at any of them, is given that event
// again and no other.
func TestKilledHandlerGetsItsEventAgain(t *testing.T) {
	for kill := 1; kill <= 6; kill++ {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{
				answer: func(_ int, r *http.Request) ([]byte, bool) { return recordedRun.response(r, unmarked), false },
			}
			c := w.client(t, client.Options{})
			opts := &client.FollowOptions{Cursors: client.FileCursor(t.TempDir() + "/cursor")}
			var handled []uint64
			for event, err := range c.Follow(t.Context(), "x", opts) {
				if err != nil {
					t.Fatal(err)
				}
				if int(event.Seq) == kill {
					break
				}
				handled = append(handled, event.Seq)
			}
			rest, err := collect(c.Follow(t.Context(), "x", opts))
			for _, event := range rest {
				handled = append(handled, event.Seq)
			}
			if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5, 6}, handled); err != nil || diff != "" {
				t.Errorf("killed in event %d: %v\n%s", kill, err, diff)
			}
			if again, err := collect(c.Follow(t.Context(), "x", opts)); len(again) > 0 || err != nil {
				t.Errorf("after the end: %v, %v", again, err)
			}
		})
	}
}

// Events are asked for in gzip where that pays, and no more once they came damaged.
func TestCompressionIsAskedFor(t *testing.T) {
	for _, tt := range []struct {
		url         string
		compression client.Compression
		want        string
	}{
		{"http://reprise.test", client.CompressRemote, "gzip"},
		{"http://192.0.2.1:7070", client.CompressRemote, "gzip"},
		{"http://127.0.0.1:7070", client.CompressRemote, "identity"},
		{"http://[::1]:7070", client.CompressRemote, "identity"},
		{"http://localhost", client.CompressAlways, "gzip"},
		{"http://reprise.test", client.CompressNever, "identity"},
	} {
		asked := ""
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = r.Header.Get("Accept-Encoding")
			head := http.Header{"Stream-Outcome": {"exited"}}
			return &http.Response{StatusCode: http.StatusNoContent, Header: head, Body: http.NoBody, Request: r}, nil
		})
		c, err := client.New(&client.Options{
			URL: tt.url, Token: "secret", Compression: tt.compression, HTTPClient: &http.Client{Transport: transport},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := collect(c.Follow(t.Context(), "x", nil)); err != nil || asked != tt.want {
			t.Errorf("%s, %d: asks for %q, %v", tt.url, tt.compression, asked, err)
		}
	}
}

// A proxy that damages what is compressed is asked for it once.
func TestDamagedCompressionIsGivenUp(t *testing.T) {
	for _, damage := range []func([]byte) []byte{
		func(b []byte) []byte { return bytes.Replace(b, []byte("\x1f\x8b\x08"), []byte("\x1f\x8b\x09"), 1) },
		func(b []byte) []byte { // a block of a kind that does not exist
			i := bytes.Index(b, []byte("\x1f\x8b\x08"))
			b[i+10] |= 6
			return b
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			w := &wire{answer: func(_ int, r *http.Request) ([]byte, bool) {
				asked = append(asked, r.Header.Get("Accept-Encoding"))
				if asked[len(asked)-1] == "gzip" {
					return damage(recordedRun.response(r, zipped)), false
				}
				return recordedRun.response(r, chunked), false
			}}
			got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", nil))
			if err != nil || len(got) != 6 || fmt.Sprint(asked) != "[gzip identity]" {
				t.Errorf("%s after %q: %v", seqs(got), asked, err)
			}
		})
	}
}
