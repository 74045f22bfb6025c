package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// server is what runs in a process of its own.
type server struct {
	addr string
	// publish appends one event; nil where there is nothing to publish to.
	publish func(data []byte) error
	// flush sends what publish has gathered; nil where publish sends.
	flush func() error
	// cursor is the text of the position just after an event; nil where ids are numbers.
	cursor func(seq uint64) string
	// runner is the contender that runs apart; nil where there is none.
	runner Runner
	// profile is where a CPU profile is written, while one is.
	profile *os.File
}

// servers are the servers by name. Each reads its arguments and listens before it returns.
var servers = map[string]func(ctx context.Context, args []string) (*server, error){
	"fan-raw":      fanRaw,
	"fan-hijack":   fanHijack,
	"fan-coalesce": fanCoalesce,
	"fan-reprise":  fanReprise,
	"fan-parked":   fanParked,
	"fan-gosse":    fanGoSSE,
	"ready":        historyReady,
	"bare":         historyBare,
	"history":      historyReprise,
	"gosse":        historyGoSSE,
	"flush":        historyFlush,
	"count":        countLines,
	"path":         servePath,
}

// serveHTTP listens on loopback and serves h for as long as the process lives.
func serveHTTP(h http.Handler) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = http.Serve(l, h) }()
	return l.Addr().String(), nil
}

var errOrder = errors.New("an order that is not known")

// obey carries out an order.
func (s *server) obey(ctx context.Context, order []string) (string, error) {
	switch strings.Join(order[:1], "") {
	case "cpu":
		return strconv.FormatInt(cpuTime().Nanoseconds(), 10), nil
	case "lap":
		return s.lap(ctx)
	case "memory":
		return resident()
	case "profile":
		return "ok", s.beginProfile(order[1])
	case "profiled":
		return "ok", s.endProfile()
	case "cursor":
		seq, err := strconv.ParseUint(order[1], 10, 64)
		if err != nil || s.cursor == nil {
			return order[1], err
		}
		return s.cursor(seq), nil
	case "burst":
		n, err := strconv.Atoi(order[1])
		if err != nil {
			return "", err
		}
		return "ok", s.burst(n)
	case "steady":
		n, err := strconv.Atoi(order[1])
		if err != nil {
			return "", err
		}
		return "ok", steadily(n, func() error { return s.burst(1) })
	}
	return "", fmt.Errorf("%w: %q", errOrder, order)
}

// burst publishes n events as fast as it can.
func (s *server) burst(n int) error {
	payload := newPayload()
	for range n {
		stamp(payload, time.Now())
		if err := s.publish(payload); err != nil {
			return err
		}
	}
	if s.flush != nil {
		return s.flush()
	}
	return nil
}

// steadily publishes n events, 50 a second.
func steadily(n int, publish func() error) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for range n {
		<-ticker.C
		if err := publish(); err != nil {
			return err
		}
	}
	return nil
}

// resident is the memory that the process holds, in bytes, after it gave back what it can.
func resident() (string, error) {
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(text))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return strconv.FormatInt(pages*int64(os.Getpagesize()), 10), err
}
