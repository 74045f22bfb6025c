package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// NotifySystemd reports our state to the service manager, if it has asked for that; see sd_notify(3).
func NotifySystemd(logger *slog.Logger, state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	conn, err := net.Dial("unixgram", socket) // a name in the abstract namespace begins with @, as net wants it
	if err == nil {
		defer conn.Close()
		_, err = conn.Write([]byte(state))
	}
	if err != nil {
		logger.Warn("the service manager cannot be notified", "state", state, "error", err)
	}
}

// WatchdogPeriod returns how often the service manager wants to hear that we work (WATCHDOG_USEC; see
// sd_watchdog_enabled(3)), 0 if it does not.
func WatchdogPeriod() (time.Duration, error) {
	text, pid := os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	if text == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0, nil
	}
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil || micros <= 0 {
		return 0, usage("WATCHDOG_USEC=%s: a number of microseconds from 1", text)
	}
	return time.Duration(micros) * time.Microsecond, nil
}

// FeedWatchdog reports to the service manager twice a period that we work, as long as healthy says so, until stop is
// called. A server that does not answer within the period is ended and started again by the service manager.
func FeedWatchdog(logger *slog.Logger, period time.Duration, healthy func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var feeding sync.WaitGroup
	feeding.Go(func() {
		tick := time.NewTicker(max(period/2, time.Millisecond))
		defer tick.Stop()
		for {
			if err := healthy(ctx); err == nil {
				NotifySystemd(logger, "WATCHDOG=1")
			} else if ctx.Err() == nil {
				logger.Error("the watchdog is not fed", "error", err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		feeding.Wait()
	}
}

// healthy asks our own handler for /healthz, without a connection: a flood of those is no reason to be started again.
func (f *front) healthy(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url()+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	r.RemoteAddr = f.listener.Addr().String()
	answer := &bareAnswer{header: http.Header{}, status: http.StatusOK}
	f.http.Handler.ServeHTTP(answer, r)
	if answer.status != http.StatusOK {
		return fmt.Errorf("/healthz answers with status %d", answer.status)
	}
	return nil
}

// bareAnswer keeps the status of an answer alone.
type bareAnswer struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (a *bareAnswer) Header() http.Header { return a.header }

// Write implements http.ResponseWriter.
func (a *bareAnswer) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (a *bareAnswer) WriteHeader(status int) { a.status = status }
