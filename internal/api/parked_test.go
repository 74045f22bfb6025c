package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/httpserver"
	"reprise/internal/park"
)

// TestParked repeats tests of readers with responses that are parked as soon as they have nothing to send.
func TestParked(t *testing.T) {
	parking(t)
	for name, test := range map[string]func(*testing.T){
		"FormsByAccept":                 TestFormsByAccept,
		"EveryFormResumes":              TestEveryFormResumes,
		"AnswersEndWithWhatThereIs":     TestFollowedAnswersEndWithWhatThereIs,
		"LinesFollowALiveStream":        TestLinesFollowALiveStream,
		"GapsAreToldInEveryForm":        TestGapsAreToldInEveryForm,
		"ReadersPerPrincipalAreBounded": TestReadersPerPrincipalAreBounded,
		"OnlyFollowersKeepARunAlive":    TestOnlyFollowersKeepARunAlive,
		"ExpiredTicketIsTold":           TestExpiredTicketIsTold,
		"TicketIsRenewedByItself":       TestTicketIsRenewedByItself,
		"LogoutEndsTheLogin":            TestLogoutEndsTheLogin,
		"StartThatStreamsAtOnce":        TestStartThatStreamsAtOnce,
		"Receipts":                      TestReceipts,
		"HeadOfEveryRead":               TestHeadOfEveryRead,
		"SeveralStreamsAreLive":         TestSeveralStreamsAreLive,
		"LiveEventsAreNotHeldBack":      TestLiveEventsAreNotHeldBack,
		"ResumesAreCounted":             TestResumesAreCounted,
		"ClientsThatGoLeaveNothing":     TestClientsThatGoLeaveNothing,
		"EachQuotaRefusesAndFrees":      TestEachQuotaRefusesAndFrees,
		"StoreClosesUnderReaders":       TestStoreClosesUnderReaders,
		"RemovalTellsReadersToComeBack": TestRemovalTellsReadersToComeBack,
		"DrainTellsReadersToComeBack":   TestDrainTellsReadersToComeBack,
		"TwoThousandReaders":            TestTwoThousandReaders,
		"DeadCredentialsAreRefused":     TestDeadCredentialsAreRefusedEverywhere,
		"ExecutionFromStartToRemoval":   TestExecutionFromStartToRemoval,
		"SeveralStreamsAsEachByItself":  TestSeveralStreamsAreReadAsEachByItself,
		"TerminalIsResizedAndFedByTwo":  TestTerminalIsResizedAndFedByTwo,
		"TraceReachesTheCommand":        TestTraceReachesTheCommand,
		"EventsAreCompressedWhereAsked": TestEventsAreCompressedWhereAsked,
		"GapEventNeverHidesAMistake":    TestGapEventNeverHidesAMistake,
		"HostilePositions":              TestHostilePositions,
		"StreamFromCreationToRemoval":   TestStreamFromCreationToRemoval,
	} {
		t.Run(name, test)
	}
}

// parking makes the fixtures of a test park responses.
func parking(t *testing.T) {
	lot, err := park.New(nil)
	if err != nil {
		t.Skip("responses are not parked on this system:", err)
	}
	if err := lot.Close(); err != nil {
		t.Fatal(err)
	}
	parkAll = true
	t.Cleanup(func() { parkAll = false })
}

// wire is one connection to a server, by hand.
type wire struct {
	*fixture
	net.Conn
	in *bufio.Reader
}

func (w *fixture) dial() *wire {
	w.Helper()
	conn, err := new(net.Dialer).DialContext(w.Context(), "tcp", w.http.Listener.Addr().String())
	w.ok(err)
	w.Cleanup(func() { conn.Close() })
	w.ok(conn.SetDeadline(time.Now().Add(2 * time.Minute)))
	return &wire{w, conn, bufio.NewReader(conn)}
}

// get sends a request for a path, with further lines of its header.
func (c *wire) get(path, header string) {
	c.Helper()
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n",
		path, token, header)
	c.fixture.ok(err)
}

// head reads the head of a response.
func (c *wire) head(status int) *http.Response {
	c.Helper()
	res, err := http.ReadResponse(c.in, nil)
	c.fixture.ok(err)
	if res.StatusCode != status {
		c.Fatalf("status %d, want %d", res.StatusCode, status)
	}
	return res
}

const acceptSSE = asSSE + "\r\n"

func (w *fixture) awaitParked(lot *park.Lot, n int) {
	w.Helper()
	w.eventually(fmt.Sprint(n, " responses are parked"), func() bool { return lot.Parked() == n })
}

// TestParkedConnectionIsUsedAgain: the connection of a response that was parked and has ended carries further requests,
// which may be parked too, and the line in the log counts the bytes of the response.
func TestParkedConnectionIsUsedAgain(t *testing.T) {
	parking(t)
	lot := &park.Lot{}
	w := start(t, setup{lot: &lot})
	c := w.dial()
	for i := range 3 {
		name := fmt.Sprint("s", i)
		s := w.stream(name, "first")
		c.get("/v1/streams/"+name+"/events", acceptSSE+"X-Request-Id: number-"+name+"\r\n")
		res := c.head(200)
		w.awaitParked(lot, 1)
		_, err := s.End(t.Context(), "completed", reprise.Event{})
		w.ok(err)
		body, err := io.ReadAll(res.Body)
		w.ok(err) // whole: its last chunk has come
		if !bytes.Contains(body, []byte("event: end")) {
			t.Fatalf("the response is %q", body)
		}
		w.awaitParked(lot, 0)
		c.get("/v1/streams/"+name, "")
		w.ok(c.head(200).Body.Close())
		line := fmt.Sprintf("id=number-%s method=GET path=/v1/streams/%s/events status=200 bytes=%d",
			name, name, len(body))
		if log := w.logged.String(); strings.Count(log, line) != 1 {
			t.Errorf("the log lacks %q:\n%s", line, log)
		}
	}
}

// TestParkedWithEarlyRequests: requests that come before the end of a parked response, in part before it is parked, are
// answered after it.
func TestParkedWithEarlyRequests(t *testing.T) {
	parking(t)
	lot := &park.Lot{}
	w := start(t, setup{lot: &lot})
	streams := []*reprise.Stream{w.stream("s0", "first"), w.stream("s1", "first")}
	get := func(path string) string {
		return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n",
			path, token, acceptSSE)
	}
	// More than net/http reads at once, so that a part is left for each of the three times.
	early := get("/v1/streams/s1/events") + get("/v1/streams?"+strings.Repeat("&", 9000)) + "GET /healthz HT"
	c := w.dial()
	_, err := io.WriteString(c, get("/v1/streams/s0/events")+early)
	w.ok(err)
	for _, s := range streams {
		res := c.head(200)
		w.awaitParked(lot, 1)
		_, err = s.End(t.Context(), "completed", reprise.Event{})
		w.ok(err)
		body, err := io.ReadAll(res.Body)
		w.ok(err)
		if !bytes.Contains(body, []byte("event: end")) {
			t.Errorf("the response is %q", body)
		}
	}
	_, err = io.Copy(io.Discard, c.head(200).Body)
	w.ok(err)
	_, err = io.WriteString(c, "TP/1.1\r\nHost: localhost\r\n\r\n")
	w.ok(err)
	w.ok(c.head(200).Body.Close())
}

// TestParkedBeforeTheEndOfItsBody: what is left of the body of a parked request is not taken for a further request.
func TestParkedBeforeTheEndOfItsBody(t *testing.T) {
	parking(t)
	lot := &park.Lot{}
	w := start(t, setup{lot: &lot})
	s := w.stream("s", "first")
	c := w.dial()
	ignored := strings.Repeat("x", 4097) // which the server reads before the response
	rest := fmt.Sprintf("GET /v1/streams/s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(ignored)+len(rest), ignored+rest)
	_, err := io.WriteString(c, fmt.Sprintf("GET /v1/streams/s/events HTTP/1.1\r\nHost: localhost\r\n"+
		"Authorization: Bearer %s\r\n%s%s", token, acceptSSE, length))
	w.ok(err)
	res := c.head(200)
	w.awaitParked(lot, 1)
	_, err = s.End(t.Context(), "completed", reprise.Event{})
	w.ok(err)
	if body, err := io.ReadAll(res.Body); err != nil || !bytes.Contains(body, []byte("event: end")) || !res.Close {
		t.Errorf("the response is %q, %v; it announces the end of the connection: %v", body, err, res.Close)
	}
	if _, err := c.in.ReadByte(); err == nil {
		t.Error("something comes after the response")
	}
}

// TestParkedHeartbeats: parked responses are sent heartbeats, each by its own clock.
func TestParkedHeartbeats(t *testing.T) {
	parking(t)
	lot := &park.Lot{}
	const silence = 100 * time.Millisecond
	w := start(t, setup{lot: &lot, api: api.Options{Heartbeat: silence}})
	s := w.stream("quiet")
	w.stream("other")
	c, other := w.dial(), w.dial()
	begun := time.Now()
	c.get("/v1/streams/quiet/events", acceptSSE)
	in := bufio.NewReader(c.head(200).Body)
	other.get("/v1/streams/other/events", acceptSSE)
	other.head(200)
	w.awaitParked(lot, 2)
	for beats := 0; beats < 5; {
		line, err := in.ReadString('\n')
		w.ok(err)
		if line == ":\n" {
			beats++
		}
	}
	if took := time.Since(begun); took < 5*silence {
		t.Errorf("5 heartbeats in %v", took)
	}
	_, err := s.Append(t.Context(), reprise.Event{Data: []byte("after")})
	w.ok(err)
	for {
		line, err := in.ReadString('\n')
		w.ok(err)
		if strings.Contains(line, "after") {
			break
		}
	}
}

// TestParkedIsCutShort: a response that does not end well lacks its last chunk.
func TestParkedIsCutShort(t *testing.T) {
	parking(t)
	lot := &park.Lot{}
	w := start(t, setup{lot: &lot})
	w.stream("s", "first")
	c := w.dial()
	c.get("/v1/streams/s/events", acceptSSE)
	res := c.head(200)
	w.awaitParked(lot, 1)
	w.ok(lot.Close())
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("the response is whole: %q", body)
	}
	w.eventually("the reader is gone", func() bool { return w.metric("reprise_readers") == "0" })
}

// TestParkedUntilTheAgeOfItsConnection: a parked reader is told to come back when its connection has reached its age,
// and the connection is closed.
func TestParkedUntilTheAgeOfItsConnection(t *testing.T) {
	parking(t)
	lot := &park.Lot{}
	w := start(t, setup{lot: &lot})
	w.stream("s", "first")
	aging := httptest.NewUnstartedServer(nil)
	aging.Config = httpserver.New(w.server, &httpserver.Options{MaxAge: 5 * time.Second})
	aging.Start()
	defer aging.Close()
	own := w.http
	w.http = aging
	defer func() { w.http = own }()
	c := w.dial()
	c.get("/v1/streams/s/events", acceptSSE)
	res := c.head(200)
	body, err := io.ReadAll(res.Body)
	if err != nil || !strings.HasSuffix(string(body), "\nretry: 250\n") || !res.Close {
		t.Errorf("ended with %q, %v; closes: %v", body, err, res.Close)
	}
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on: %v", err)
	}
}
