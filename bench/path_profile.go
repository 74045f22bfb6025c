package bench

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// pathRule names the functions of a part by the beginnings of their names. A sample of a profile belongs to the part of
// the innermost function of its stack that any rule names.
type pathRule struct {
	part      string
	functions []string
}

// partRest is the part of what no rule names.
const partRest = "other parts of Go's runtime"

// pathRules are in the order in which an event passes the parts. The first one that holds decides.
var pathRules = []pathRule{
	{"kernel: read the request", []string{"syscall.read"}},
	{"net/http, net: requests, buffers, chunks, deadlines", []string{
		"net/http.", "net/http/internal.", "net.", "net/textproto.", "net/url.", "bufio.", "internal/poll.", "mime.",
	}},
	{"internal/httpserver: bounds on connections and bodies", []string{"reprise/internal/httpserver."}},
	{"internal/api, identity, quota, metrics: access and answer", []string{
		"reprise/internal/api.", "reprise/internal/identity.", "reprise/internal/quota.", "reprise/internal/metrics.",
		"reprise/internal/problem.", "reprise/internal/tracecontext.", "encoding/json", "log/slog.",
	}},
	{"internal/jsonscan: the body", []string{"reprise/internal/jsonscan."}},
	{"reprise: append, commit, publish, read", []string{"reprise."}},
	{"store: the batch", []string{"reprise/store/"}},
	{"SQLite, with its writes and syncs", []string{"modernc.org/", "zombiezen.com/"}},
	{"kernel: write and sync the file of the log", []string{
		"syscall.pwrite", "syscall.fdatasync", "syscall.Fdatasync", "syscall.Fsync", "golang.org/x/sys/unix.",
	}},
	{"ssehttp, internal/sseloop, sse: frames", []string{
		"reprise/sse/ssehttp.", "reprise/internal/sseloop.", "reprise/sse.", "reprise/internal/contentcoding.",
	}},
	{"kernel: write to the sockets", []string{"syscall.write"}},
	{"wake-ups: Go's scheduler and epoll", []string{
		"runtime.mcall", "runtime.schedule", "runtime.findRunnable", "runtime.netpoll", "runtime.goready",
		"runtime.ready", "runtime.park_m", "runtime.gosched", "runtime.mstart", "runtime.selectgo", "runtime.chansend",
		"runtime.closechan", "runtime.sysmon", "runtime.wakep", "runtime.timer", "runtime.(*timer", "time.",
	}},
	{"garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gc"}},
}

// readShares reads a CPU profile and returns which share of the time each part has.
func readShares(path string) (parts, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	p, err := profile.Parse(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	shares, sum := parts{}, 0.0
	for _, sample := range p.Sample {
		n := float64(sample.Value[0])
		shares[partOf(stackOf(sample))] += n
		sum += n
	}
	if sum == 0 {
		return nil, errors.New("the profile has no samples")
	}
	return shares.over(sum), nil
}

// stackOf returns the names of the functions of a sample, the innermost first.
func stackOf(sample *profile.Sample) []string {
	var stack []string
	for _, place := range sample.Location {
		for _, line := range place.Line {
			stack = append(stack, line.Function.Name)
		}
	}
	return stack
}

func partOf(stack []string) string {
	for _, function := range stack {
		for _, rule := range pathRules {
			if hasAnyPrefix(function, rule.functions) {
				return rule.part
			}
		}
	}
	return partRest
}

// hasAnyPrefix reports whether the name of a function begins like one of others.
func hasAnyPrefix(function string, others []string) bool {
	return slices.ContainsFunc(others, func(p string) bool { return strings.HasPrefix(function, p) })
}
