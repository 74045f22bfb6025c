// Package doctor checks what a server needs from its machine, and says what to do
// about what is missing. It leaves nothing behind.
package doctor

import (
	"context"
	"fmt"
	"time"

	"reprise/internal/isolation"
)

// Result says how a check went.
type Result string

// The results. A server starts with warnings, and not with a failure.
const (
	OK   Result = "ok"
	Warn Result = "warn"
	Fail Result = "fail"
)

// Finding is what one check has found.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	Detail string `json:"detail"`
	// Advice says what to do about it; "" where nothing is to be done.
	Advice string `json:"advice,omitempty"`
}

func ok(check, format string, args ...any) Finding {
	return Finding{Check: check, Result: OK, Detail: fmt.Sprintf(format, args...)}
}

func warn(check, advice, format string, args ...any) Finding {
	return Finding{Check: check, Result: Warn, Detail: fmt.Sprintf(format, args...), Advice: advice}
}

func fail(check, advice, format string, args ...any) Finding {
	return Finding{Check: check, Result: Fail, Detail: fmt.Sprintf(format, args...), Advice: advice}
}

// Options are what the server would be started with.
type Options struct {
	// Listen is the address, as host:port.
	Listen string
	// Data is the data directory.
	Data string
	// Store is the URL of the store, as it is shown.
	Store string
	// OpenStore opens and closes the store. Its error says what is wrong; it is InUse
	// while a server has the data directory.
	OpenStore func(context.Context) error
	// Isolation is how commands would be isolated, and LimitCommand their bounds.
	Isolation    *isolation.Config
	LimitCommand []string
	// Refused is why a server would not start with this isolation, nil if it would.
	Refused error
	// InUse is the error for a data directory that a server has.
	InUse error
	// Waiting returns the number of commands of the running server whose output waits until there is room for it, and
	// since when the first one does. nil if no server can be asked.
	Waiting func(context.Context) (n int, since time.Time, err error)
}

// Run makes all checks, in the order in which they are reported.
func Run(ctx context.Context, opts *Options) []Finding {
	findings := []Finding{
		checkPort(ctx, opts.Listen),
		checkData(opts.Data),
		checkSpace(opts.Data),
		checkStore(ctx, opts),
		checkCgroups(),
	}
	findings = append(findings, checkBoundary(opts)...)
	findings = append(findings, checkIsolation(opts.Isolation)...)
	findings = append(findings, checkInterpreters(), checkFiles(), checkSteps())
	findings = append(findings, checkDate(ctx, opts.Listen)...)
	return append(findings, checkWaiting(ctx, opts)...)
}

// Failed reports whether a server would not start, or not work.
func Failed(findings []Finding) bool {
	for _, f := range findings {
		if f.Result == Fail {
			return true
		}
	}
	return false
}
