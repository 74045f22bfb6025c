package cutproxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise/internal/cutproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// proxy starts a server that answers with text, and a Proxy in front of it.
func proxy(t *testing.T, text string, cuts ...string) *cutproxy.Proxy {
	t.Helper()
	plan, err := cutproxy.ParsePlan(cuts, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header()["Date"] = nil
		_, _ = io.WriteString(w, text)
	}))
	p, err := cutproxy.Listen(server.Listener.Addr().String(), &cutproxy.Options{Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		server.Close()
	})
	return p
}

// ask sends a request and returns what came back, to the byte.
func ask(t *testing.T, p *cutproxy.Proxy) (string, error) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return "", err // reset before it was accepted
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	_, refused := io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: source.test\r\nConnection: close\r\n\r\n")
	got, err := io.ReadAll(conn)
	if err == nil { // a reset is told once, to the call that meets it
		err = refused
	}
	return string(got), err
}

func TestCutsToTheByte(t *testing.T) {
	whole, err := ask(t, proxy(t, "data: hello\n\n"))
	if err != nil || !strings.HasSuffix(whole, "data: hello\n\n") {
		t.Fatalf("%q, %v", whole, err)
	}
	for n := range len(whole) {
		p := proxy(t, "data: hello\n\n", fmt.Sprintf("fin@%d", n), fmt.Sprintf("half@%d", n))
		for _, kind := range []string{"fin", "half"} {
			if got, err := ask(t, p); err != nil || len(got) != n || !strings.HasPrefix(whole, got) {
				t.Errorf("%s after %d bytes: %q, %v", kind, n, got, err)
			}
		}
		if got, err := ask(t, p); err != nil || len(got) != len(whole) || p.Faults() != 2 {
			t.Errorf("after %d cuts: %q, %v", p.Faults(), got, err)
		}
	}
}

func TestResetsAfterBytesAndTime(t *testing.T) {
	for _, cut := range []string{"rst@10", "refuse", "rst@1ms"} {
		p := proxy(t, strings.Repeat("data: hello\n\n", 1<<20), cut)
		if got, err := ask(t, p); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%s: %d bytes, %v", cut, len(got), err)
		}
	}
}

// A stall ends when the client leaves, and Close ends it too.
func TestStallsEndWithClientOrProxy(t *testing.T) {
	p := proxy(t, "data: hello\n\n", "stall@20*2")
	for range 2 {
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if n, err := io.ReadFull(conn, make([]byte, 20)); err != nil {
			t.Fatal(n, err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%d bytes after a stall, %v", n, err)
		}
		t.Cleanup(func() { conn.Close() })
	}
}

func TestSlowConnectionDelaysBytes(t *testing.T) {
	p := proxy(t, "data: hello\n\n", "slow=2ms@0")
	begin := time.Now()
	got, err := ask(t, p)
	if took := time.Since(begin); err != nil || !strings.HasSuffix(got, "hello\n\n") || took < 200*time.Millisecond {
		t.Errorf("after %v: %q, %v", took, got, err)
	}
}

func TestProxyAnswersByPlan(t *testing.T) {
	p := proxy(t, "data: hello\n\n", "503=7", "502", "page", "redirect=http://other.test/x", "wrong")
	for _, want := range []string{
		"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\nRetry-After: 7\r\n",
		"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length",
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
		"HTTP/1.1 302 Found\r\nContent-Type: text/html\r\nLocation: http://other.test/x\r\n",
		"SSH-2.0-",
	} {
		if got, err := ask(t, p); !strings.HasPrefix(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

func TestForeignEvents(t *testing.T) {
	p := proxy(t, "id: 1\ndata: a\n\nid: 2\ndata: b\n\n", "foreign")
	got, err := ask(t, p)
	_, body, _ := strings.Cut(got, "\r\n\r\n")
	if err != nil || strings.Count(body, "event: ping\n") != 3 ||
		!strings.Contains(body, "\r\nevent: ping\n") || !strings.Contains(body, "id: 1\ndata: a\n\nevent: ping\n") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDelayCountsFromText(t *testing.T) {
	plan := cutproxy.Every(cutproxy.Fault{Kind: cutproxy.RST, Delay: 20 * time.Millisecond})
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	p, err := cutproxy.Listen(echo.Addr().String(), &cutproxy.Options{Plan: plan, On: "now!"})
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	defer p.Close()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	for _, text := range []string{"quiet", "n", "ow", "!"} {
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, len(text))); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// Targets, plans and cuts can be changed while connections are open.
func TestChangesApplyToNextConnection(t *testing.T) {
	p := proxy(t, "data: hello\n\n")
	other := proxy(t, "data: other\n\n")
	if got, _ := ask(t, p); !strings.HasSuffix(got, "hello\n\n") || p.Passed() != int64(len(got)) {
		t.Errorf("%q, %d bytes passed", got, p.Passed())
	}
	p.SetTarget(other.Addr())
	if got, _ := ask(t, p); !strings.HasSuffix(got, "other\n\n") {
		t.Errorf("%q", got)
	}
	p.SetPlan(cutproxy.First(1, cutproxy.Fault{Kind: cutproxy.Refuse}))
	if got, err := ask(t, p); got != "" || err == nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, _ := ask(t, p); !strings.HasSuffix(got, "other\n\n") {
		t.Errorf("%q", got)
	}
}

func TestParsePlan(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	plan, err := cutproxy.ParsePlan([]string{
		"rst@600", "fin@0+7*3", "stall@10-20*100", "slow=5ms", "rst@2s", "503*",
	}, random)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, n := range []int{0, 1, 2, 3, 104, 105, 106, 1000} {
		f := plan(n)
		fmt.Fprintf(&text, "%s %d %v %v %d\n", f.Kind, f.After, f.Delay, f.Pace, f.Code)
	}
	want := "rst 600 0s 0s 0\nfin 0 0s 0s 0\nfin 7 0s 0s 0\nfin 14 0s 0s 0\nslow 0 0s 5ms 0\nrst 0 2s 0s 0\nstatus 0 0s 0s 503\nstatus 0 0s 0s 503\n"
	if text.String() != want {
		t.Errorf("%s\nwant\n%s", text.String(), want)
	}
	least, most := int64(100), int64(0)
	for n := 4; n < 104; n++ {
		least, most = min(least, plan(n).After), max(most, plan(n).After)
	}
	if least != 10 || most != 20 {
		t.Errorf("stalls after %d to %d bytes", least, most)
	}
	if plan, err = cutproxy.ParsePlan(nil, random); err != nil || plan(0) != nil {
		t.Error("no texts are a fault")
	}
	for _, bad := range []string{
		"", "cut", "rst@", "rst@-1", "rst@x", "rst*0", "rst*x", "rst=1", "502@7", "99", "600", "slow=fast", "slow@1s",
		"stall@1s",
		"redirect", "redirect=/x", "rst@5-", "rst@1s+2", "rst@1+x",
	} {
		if _, err := cutproxy.ParsePlan([]string{bad}, random); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
