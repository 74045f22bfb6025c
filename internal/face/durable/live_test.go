package durable_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"reprise"

	"reprise/internal/face/facetest"
)

// TestCutAtEveryByte: a reader that is cut anywhere and comes back with Last-Event-ID, as an EventSource does, or with
// the offset of the last control event, as the clients of the protocol do, gets each message once.
func TestCutAtEveryByte(t *testing.T) {
	w := start(t, nil)
	messages := []string{
		`"line\nbreaks\r\n"`, `"   spaces"`, `{"a":[1,2]}`, "\"\u2028 \u2029 ü\"", `[[]]`, `null`,
		`"\u0000"`, `1e5`, `" "`, `true`,
	}
	w.want(201, "PUT", "s", "", ofJSON...)
	for _, m := range messages {
		w.want(204, "POST", "s", "["+m+"]", ofJSON...)
	}
	w.want(204, "POST", "s", "", "Stream-Closed", "true")
	read := func(text string) (got []string, id, offset string) {
		id, offset = "", "-1"
		var pending []string // without their control event
		w.frames(strings.NewReader(text), func(f frame) bool {
			switch f.event {
			case "data":
				var some []json.RawMessage
				w.OK(json.Unmarshal([]byte(f.data), &some))
				for _, m := range some {
					pending = append(pending, string(m))
				}
				id = f.id
			case "control":
				got, pending = append(got, pending...), nil
				offset = w.control(f).StreamNextOffset
			}
			return true
		})
		return append(got, pending...), id, offset
	}
	var whole strings.Builder // in as many frames as there are messages
	for at := "-1"; ; {
		a := w.want(200, "GET", "s?live=sse&offset="+at, "")
		cut := strings.Index(a.text, "event: control")
		if cut < 0 {
			t.Fatalf("no control event in %q", a.text)
		}
		whole.WriteString(a.text)
		if strings.Contains(a.text, `"streamClosed":true`) {
			break
		}
	}
	all := whole.String()
	for i := range len(all) + 1 {
		got, id, _ := read(all[:i])
		rest, _, _ := read(w.want(200, "GET", "s?live=sse&offset=-1", "", lastEvent(id)...).text)
		if got = append(got, rest...); !slices.Equal(got, messages) {
			t.Fatalf("cut at byte %d, back with %q: %q", i, id, got)
		}
	}
	got, _, offset := read(all)
	rest, _, _ := read(w.want(200, "GET", "s?live=sse&offset="+offset, "").text)
	if len(rest) > 0 || !slices.Equal(got, messages) {
		t.Errorf("behind the last offset: %q", rest)
	}
}

func lastEvent(id string) []string {
	if id == "" {
		return nil
	}
	return []string{"Last-Event-ID", id}
}

// TestFollow: a reader gets what is appended while it waits, heartbeats, and the end with the last content.
func TestFollow(t *testing.T) {
	w := start(t, nil)
	for _, kind := range [][]string{ofText, ofJSON, binary} {
		path := "s" + strconv.Itoa(len(kind[1]))
		w.want(201, "PUT", path, "", kind...)
		resp := w.send("GET", path+"?offset=now&live=sse", "")
		defer resp.Body.Close()
		if encoding := resp.Header.Get("Stream-SSE-Data-Encoding"); (encoding == "base64") != (kind[1] == binary[1]) {
			t.Errorf("%s: encoding %q", kind[1], encoding)
		}
		var got []string
		w.frames(resp.Body, func(f frame) bool {
			if f.event == "data" {
				if kind[1] == binary[1] {
					f.data = w.decoded(f.data)
				}
				got = append(got, f.data)
				return true
			}
			c := w.control(f)
			if c.StreamNextOffset != f.id || !c.UpToDate || c.StreamClosed == (c.StreamCursor != "") {
				t.Errorf("%s: %+v behind %q", kind[1], c, f.id)
			}
			switch n := len(got); {
			case n < 3:
				w.want(204, "POST", path, strconv.Itoa(n), kind...)
			case n == 3:
				w.want(204, "POST", path, "3", with(kind, "Stream-Closed", "true")...)
			}
			return !c.StreamClosed
		})
		want := []string{"0", "1", "2", "3"}
		if kind[1] == ofJSON[1] {
			want = []string{"[0]", "[1]", "[2]", "[3]"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", kind[1], got)
		}
	}
	w.want(201, "PUT", "quiet", "", ofText...)
	resp := w.send("GET", "quiet?offset=-1&live=sse", "")
	defer resp.Body.Close()
	var text []byte
	for piece := make([]byte, 64); strings.Count(string(text), ":\n\n") < 3; {
		n, err := resp.Body.Read(piece)
		w.OK(err)
		text = append(text, piece[:n]...)
	}
}

// TestLinesOfText: content cannot begin a line of the format, and arrives as it was sent, but that each break is LF.
func TestLinesOfText(t *testing.T) {
	w := start(t, nil)
	for i, text := range []string{
		"a\nb", "a\r\nb", "a\rb", "\n", "\r\n", "\n\nevent: control\ndata: {}\n\n", " space", "\n space", "a\n",
		"a\r\n", ":comment", "\r\r\n", "id: 1\n", "\u2028", "data: x",
	} {
		path := "s" + strconv.Itoa(i)
		w.want(201, "PUT", path, text, with(ofText, "Stream-Closed", "true")...)
		var got []frame
		w.frames(strings.NewReader(w.want(200, "GET", path+"?offset=-1&live=sse", "").text), func(f frame) bool {
			got = append(got, f)
			return true
		})
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
		if len(got) != 2 || got[0].event != "data" || got[0].data != want || got[1].event != "control" {
			t.Errorf("%q arrives as %q", text, got)
		}
	}
}

// TestLongPoll answers with what comes, and at once with the end.
func TestLongPoll(t *testing.T) {
	w := start(t, nil)
	made := w.want(201, "PUT", "s", "", ofText...)
	answered := make(chan answer)
	go func() { answered <- w.do("GET", "s?live=long-poll&offset="+made.next(), "") }()
	w.want(204, "POST", "s", "x", ofText...)
	a := <-answered
	if a.status != 200 || a.text != "x" || a.header.Get("Stream-Cursor") == "" {
		t.Errorf("%d %q %v", a.status, a.text, a.header)
	}
	again := w.want(200, "GET", "s?live=long-poll&offset=-1&cursor="+a.header.Get("Stream-Cursor"), "")
	before, _ := strconv.Atoi(a.header.Get("Stream-Cursor"))
	if after, _ := strconv.Atoi(again.header.Get("Stream-Cursor")); after <= before {
		t.Errorf("cursor %d after %d", after, before)
	}
	go func() { answered <- w.do("GET", "s?live=long-poll&offset="+a.next(), "") }()
	w.want(204, "POST", "s", "", "Stream-Closed", "true")
	for range 2 {
		a = <-answered
		if a.status != 204 || a.header.Get("Stream-Closed") != "true" || a.header.Get("Stream-Up-To-Date") != "true" {
			t.Errorf("at the end: %d %v", a.status, a.header)
		}
		go func() { answered <- w.do("GET", "s?live=long-poll&offset="+a.next(), "") }()
	}
	<-answered
}

// TestShutdownEndsReaders: at the end of the server a reader is let go, and comes back to another one.
func TestShutdownEndsReaders(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "s", "one", ofText...)
	following := w.send("GET", "s?offset=-1&live=sse", "")
	defer following.Body.Close()
	w.frames(following.Body, func(f frame) bool { return f.event != "control" })
	answered := make(chan answer)
	go func() { answered <- w.do("GET", "s?live=long-poll&offset=now", "") }()
	w.API.Drain()
	if _, err := io.Copy(io.Discard, following.Body); err != nil {
		t.Errorf("the response does not end in order: %v", err)
	}
	if a := <-answered; a.status != 503 {
		t.Errorf("a long poll is answered with %d", a.status)
	}
	w.want(503, "POST", "s", "x", ofText...)
}

// expireAt sets the time at which a stream expires, as if it were past already.
func (w *fixture) expire(name string) {
	w.Helper()
	_, err := w.stream(name).Configure(w.Context(), func(config *reprise.StreamConfig) {
		config.Labels[reprise.ExpiresLabel] = time.Now().Add(-time.Second).Format(time.RFC3339Nano)
	})
	w.OK(err)
}

// expires returns when a stream expires.
func (w *fixture) expires(name string) time.Time {
	w.Helper()
	info, err := w.stream(name).Info(w.Context())
	w.OK(err)
	return info.Config.Expires()
}

// TestTimeToLive: each use but HEAD moves the time at which the stream expires, and then it is as if it never was.
func TestTimeToLive(t *testing.T) {
	w := start(t, nil)
	for _, refused := range []string{"-1", "01", "+1", "1.0", "1e3", "x", "99999999999999999999", "4294967296000"} {
		w.want(400, "PUT", "s", "", with(ofText, "Stream-TTL", refused)...)
	}
	w.want(400, "PUT", "s", "", with(ofText, "Stream-TTL", "1", "Stream-Expires-At", "2100-01-01T00:00:00Z")...)
	w.want(400, "PUT", "s", "", with(ofText, "Stream-Expires-At", "tomorrow")...)
	const ttl = 3600
	made := with(ofText, "Stream-TTL", strconv.Itoa(ttl))
	w.want(201, "PUT", "s", "one", made...)
	s, soon := w.stream("s"), time.Now().Add(time.Minute)
	for _, use := range []struct {
		method, path, body string
		status             int
		header             []string
		moves              bool
	}{
		{"HEAD", "s", "", 200, nil, false},
		{"GET", "s", "", 200, nil, true},
		{"GET", "s?offset=now", "", 200, nil, true},
		{"GET", "s?offset=-1&live=long-poll", "", 200, nil, true},
		{"POST", "s", "x", 204, ofText, true},
		{"POST", "s", "x", 200, with(ofText, producing("p", 0, 0)...), true},
		{"PUT", "s", "", 200, made, true},
		{"POST", "s", "", 204, []string{"Stream-Closed", "true"}, true},
		{"GET", "s", "", 200, nil, true},
	} {
		_, err := s.Configure(t.Context(), func(config *reprise.StreamConfig) {
			config.Labels[reprise.ExpiresLabel] = soon.Format(time.RFC3339Nano)
		})
		w.OK(err)
		a := w.want(use.status, use.method, use.path, use.body, use.header...)
		if use.method == "HEAD" && a.header.Get("Stream-TTL") != strconv.Itoa(ttl) {
			t.Errorf("HEAD says %v", a.header)
		}
		left := time.Until(w.expires("s"))
		if (left > ttl*time.Second-time.Minute) != use.moves || left > ttl*time.Second*12/10 {
			t.Errorf("%s %s: the stream expires in %v", use.method, use.path, left)
		}
	}
	for _, use := range []string{"GET", "HEAD", "POST", "DELETE"} {
		w.expire("s")
		w.want(404, use, "s", "x", ofText...)
		w.want(404, use, "s", "x", ofText...)
		w.want(201, "PUT", "s", "new", made...)
		if a := w.want(200, "GET", "s", ""); a.text != "new" {
			t.Errorf("after %s the stream holds %q", use, a.text)
		}
	}
	at := time.Now().Add(time.Hour).Format(time.RFC3339)
	w.want(201, "PUT", "at", "", with(ofText, "Stream-Expires-At", at)...)
	w.want(200, "PUT", "at", "", with(ofText, "Stream-Expires-At", at)...)
	w.want(200, "GET", "at", "")
	a := w.want(200, "HEAD", "at", "")
	if a.header.Get("Stream-Expires-At") != at || w.expires("at").Format(time.RFC3339) != at {
		t.Errorf("it expires at %v, and says %v", w.expires("at"), a.header)
	}
	w.want(400, "PUT", "past", "", with(ofText, "Stream-Expires-At", "2001-01-01T00:00:00Z")...)
}

// TestReaderKeepsStreamAlive: a reader that follows counts as use while it is there.
func TestReaderKeepsStreamAlive(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "s", "", with(ofText, "Stream-TTL", "60")...)
	resp := w.send("GET", "s?offset=-1&live=sse", "")
	defer resp.Body.Close()
	soon := time.Now().Add(10 * time.Second)
	_, err := w.stream("s").Configure(t.Context(), func(config *reprise.StreamConfig) {
		config.Labels[reprise.ExpiresLabel] = soon.Format(time.RFC3339Nano)
	})
	w.OK(err)
	piece := make([]byte, 64)
	for w.expires("s").Before(soon.Add(time.Second)) {
		_, err := resp.Body.Read(piece) // a heartbeat
		w.OK(err)
	}
}

// TestAccess: each call asks for a scope, prefixes hold, and nothing is another tenant's.
func TestAccess(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "secret", "secret", ofText...)
	w.want(201, "PUT", "team/s", "theirs", ofText...)
	calls := []struct {
		method, path, body   string
		reader, writer, team int
	}{
		{"GET", "secret", "", 200, 403, 404},
		{"GET", "secret?offset=-1&live=sse", "", 200, 403, 404},
		{"HEAD", "secret", "", 200, 403, 404},
		{"POST", "secret", "x", 403, 204, 404},
		{"PUT", "secret", "", 403, 200, 403},
		{"DELETE", "secret", "", 403, 403, 404},
		{"PUT", "team%2Fnew", "", 403, 201, 200},
		{"GET", "team/s", "", 200, 403, 200},
		{"POST", "team/s", "x", 403, 204, 204},
	}
	for _, call := range calls {
		for token, want := range map[string]int{
			facetest.Reader: call.reader, facetest.Writer: call.writer, facetest.Bounded: call.team,
			facetest.Stranger: 404, "none": 401,
		} {
			if token == facetest.Stranger && call.method == "PUT" ||
				token == facetest.Bounded && call.path == "team%2Fnew" {
				continue
			}
			w.token = token
			resp := w.send(call.method, call.path, call.body, ofText...)
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s %s by %s: %d, want %d", call.method, call.path, token, resp.StatusCode, want)
			}
		}
	}
	w.token = facetest.Bounded
	w.want(404, "PUT", "team/fork", "", "Stream-Forked-From", "/v1/stream/secret")
	w.want(201, "PUT", "team/fork", "", "Stream-Forked-From", "/v1/stream/team/s")
	w.token = facetest.Stranger
	w.want(404, "PUT", "fork", "", "Stream-Forked-From", "/v1/stream/secret")
	w.want(201, "PUT", "secret", "of the other tenant", ofText...)
	w.token = facetest.Owner
	if a := w.want(200, "GET", "secret", ""); !strings.HasPrefix(a.text, "secret") {
		t.Errorf("read %q", a.text)
	}
	ticket := w.want(201, "POST", "/v1/tickets", `{"stream":"secret"}`, ofJSON...)
	var made struct {
		Ticket string `json:"ticket"`
	}
	w.OK(json.Unmarshal([]byte(ticket.text), &made))
	w.token = ""
	w.want(200, "GET", "secret?ticket="+made.Ticket, "")
	w.want(200, "HEAD", "secret?ticket="+made.Ticket, "")
	w.want(403, "POST", "secret?ticket="+made.Ticket, "x", ofText...)
	if a := w.do("GET", "team/s?ticket="+made.Ticket, ""); a.status == 200 {
		t.Errorf("a ticket of another stream reads %q", a.text)
	}
}

// TestOffsets that are not ours are refused.
func TestOffsets(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "s", "one", ofText...)
	good := w.want(200, "HEAD", "s", "").next()
	for _, bad := range []string{
		"offset=", "offset=x", "offset=1", "offset=-2", "offset=" + good + "&offset=" + good, "offset=a%2Cb",
		"offset=%20", "offset=..", "offset=%00", "offset=" + good + "%0A", "offset=" + good + "0", "live=sse",
		"live=long-poll", "live=x&offset=-1",
		"offset=" + strings.Replace(good, "_", "-", 1), "offset=%zz",
	} {
		w.want(400, "GET", "s?"+bad, "")
	}
	w.want(400, "GET", "s?offset=-1&live=sse", "", "Last-Event-ID", "x")
	w.want(200, "GET", "s?offset="+good+"&other=1", "")
	for i := range 20 {
		next := w.want(204, "POST", "s", fmt.Sprint(i), ofText...).next()
		if next <= good {
			t.Fatalf("offset %s after %s", next, good)
		}
		good = next
	}
}
