package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"reprise"
	"reprise/client"
	"reprise/cmd/reprise/internal/manual"
	"reprise/cmd/reprise/internal/printable"
	"reprise/internal/datadir"
	"reprise/internal/node"
	"reprise/internal/problem"
	"reprise/internal/storeurl"
)

// The exit codes; run and follow mostly exit with the command's own.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitTimedOut  = 124
	exitOurs      = 125 // of run and follow, in place of exitFailed
	exitNoStart   = 127
	exitSignaled  = 128 // plus the number of the signal
	exitCancelled = exitSignaled + int(syscall.SIGINT)
)

// exit is an error with its exit code. err is nil if there is nothing to print.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage is an error in the command line.
func usage(format string, args ...any) error {
	return &exit{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// isUsage reports whether err, of an internal package, is one in the command line.
func isUsage(err error) bool {
	_, ok := errors.AsType[*node.UsageError](err)
	return ok || errors.Is(err, storeurl.ErrScheme) || errors.Is(err, datadir.ErrNone)
}

// ours gives a failure of our own an exit code that commands rarely have.
func ours(err error) error {
	if _, ok := errors.AsType[*exit](err); ok || err == nil || isUsage(err) {
		return err
	}
	code := exitOurs
	if asked, ok := errors.AsType[*askedToStop](err); ok {
		code = asked.code()
	}
	return &exit{code: code, err: err}
}

// report prints the error of a command line and what to do about it, and returns the exit code. command may be nil.
func report(w io.Writer, err error, command *kong.Context) int {
	if err == nil {
		return 0
	}
	code := exitFailed
	if asked, ok := errors.AsType[*askedToStop](err); ok {
		return asked.code()
	}
	if isUsage(err) {
		code = exitUsage
	}
	if e, ok := errors.AsType[*exit](err); ok {
		if code = e.code; e.err == nil {
			return code
		}
	}
	colours := paletteOf(w)
	label := colours.draw(red, "reprise:")
	fmt.Fprintln(w, label, printable.Text(err.Error())) // the text may come from a server or another program
	if hint := hint(err); hint != "" {
		fmt.Fprintln(w, colours.draw(dim, "  "+hint))
	}
	if code == exitUsage {
		fmt.Fprintln(w, colours.draw(dim, "  "+usageHint(command)))
	}
	return code
}

// usageHint says where to read how a command line is written.
func usageHint(command *kong.Context) string {
	if command == nil || command.Selected() == nil {
		return `"reprise --help" lists all commands.`
	}
	return fmt.Sprintf(`"%s --help" shows how it is used.`, manual.Command(command.Selected()))
}

// listings are the verbs that list what an operation of package client has not found, by the beginning of what the
// operation is about.
var listings = []struct{ object, verb string }{
	{"schedule ", "reprise schedule list"},
	{"webhook ", "reprise webhook list"},
	{"key ", "reprise key list"},
	{"quotas", "reprise key list"},
	{"interpreter ", "reprise interpreter list"},
	{"MCP session ", "reprise list --mcp"},
	{"calls of MCP session ", "reprise list --mcp"},
	{"session ", "reprise list --sessions"},
	{"task ", "reprise list --tasks"},
	{"stream ", "reprise list --streams"},
}

// listing returns the verb that lists what err has not found.
func listing(err error) string {
	if failed, ok := errors.AsType[*client.Error](err); ok {
		_, object, _ := strings.Cut(failed.Op, " ")
		for _, l := range listings {
			if strings.HasPrefix(object, l.object) {
				return l.verb
			}
		}
	}
	return "reprise list"
}

// hint returns advice about err, or "".
func hint(err error) string {
	p, _ := problem.As(err)
	dial, _ := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, client.ErrUnproven):
		return `If that is your server, start it again with this version, or set REPRISE_TOKEN to what is in its file "token".`
	case dial != nil && dial.Op == "dial":
		return `Is the server running? Start it with "reprise serve", or set REPRISE_URL.`
	case dial != nil && dial.Op == "listen":
		return `Take another address, for example --listen 127.0.0.1:0 for any free port.`
	case p.Code == problem.CodeUnauthenticated:
		return `Set REPRISE_TOKEN to what is in the file "token" in the server's data directory.`
	case p.Code == problem.CodeRateLimited, p.Code == problem.CodeStoreUnavailable, p.Code == problem.CodeShuttingDown:
		return "Try again in a while."
	case p.Status != 0 && p.Code == "":
		return "That is no answer of Reprise: does REPRISE_URL lead to its server, or does a proxy answer?"
	case errors.Is(err, client.ErrProtocol):
		return "Does REPRISE_URL lead to a Reprise server?"
	case strings.Contains(p.Detail, "; serve --"): // that is one
		return ""
	case strings.HasPrefix(p.Detail, "there is no such path"):
		return "Is REPRISE_URL the address of the server, without a path, and the server as new as this program?"
	case errors.Is(err, reprise.ErrNotFound):
		return fmt.Sprintf("%q shows what there is.", listing(err))
	case p.Code == problem.CodeCursorMalformed:
		return `A cursor is what "follow --json" shows beside an event; earliest and tail can be named too.`
	case p.Code == problem.CodeCursorExpired, p.Code == problem.CodeEpochChanged:
		return "What was there is no longer kept. --after earliest begins with what is."
	case errors.Is(err, os.ErrPermission):
		return "Run as the user who owns it, or name another place with --data."
	}
	return ""
}
