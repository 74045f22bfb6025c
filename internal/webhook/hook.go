package webhook

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/problem"
)

// Source is the kind of events that a hook covers.
type Source string

// The sources.
const (
	// Executions covers the ends of executions that are started after the hook was made, or that run at that time.
	Executions Source = "executions"
	// Streams covers the events of streams.
	Streams Source = "streams"
)

// Hook is a webhook. Its Secrets are never shown.
type Hook struct {
	ID     string         `json:"id"`
	Tenant reprise.Tenant `json:"tenant"`
	URL    string         `json:"url"`
	Source Source         `json:"source"`
	// Stream is the one stream that the hook covers. If it is empty, the hook covers the streams whose name begins with
	// Prefix, or the executions whose session does.
	Stream string `json:"stream,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	// Types are the event types that are sent. None means all.
	Types []string `json:"types,omitempty"`
	// Principal is the maker of the hook, whose permissions limit what it sends.
	Principal string    `json:"principal"`
	Created   time.Time `json:"created"`
	// Secrets sign the messages. The newest is first.
	Secrets []Secret `json:"secrets"`
	// Disabled says why and since when nothing is sent. It is nil for a hook that works.
	Disabled *Disabled `json:"disabled,omitempty"`
}

// Disabled is the reason for which, and the time since when, a hook sends nothing.
type Disabled struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// Request describes a hook to make.
type Request struct {
	Tenant    reprise.Tenant
	Principal string
	URL       string
	Source    Source // "" is Executions
	Stream    string
	Prefix    string
	Types     []string
	// Secret is chosen by the receiver: "whsec_" and base64 of 24 to 64 bytes. If it is empty, Add generates one.
	Secret string
}

// FieldError names an invalid field of a request. It wraps reprise.ErrInvalid.
type FieldError struct{ Field, Reason string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Problem implements problem.Teller.
func (e *FieldError) Problem(detail string) problem.Problem {
	return problem.Invalid(http.StatusUnprocessableEntity, e.Field, detail)
}

// Unwrap returns reprise.ErrInvalid.
func (e *FieldError) Unwrap() error { return reprise.ErrInvalid }

func invalid(field, format string, args ...any) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Bounds of a request.
const (
	maxURL   = 2048
	maxTypes = 64
	maxName  = 255
)

// validate checks a request and fills in its defaults.
func (q *Request) validate() error {
	if q.Source == "" {
		q.Source = Executions
	}
	if err := checkURL(q.URL); err != nil {
		return err
	}
	if err := q.checkSource(); err != nil {
		return err
	}
	for _, t := range q.Types {
		if t == "" || len(t) > 64 || strings.ContainsFunc(t, notInTypes) {
			return invalid("types", "%.64q is no type of events", t)
		}
	}
	return nil
}

// checkSource checks that the members that select events are consistent.
func (q *Request) checkSource() error {
	switch {
	case q.Source != Executions && q.Source != Streams:
		return invalid("source", "it is %q or %q", Executions, Streams)
	case q.Source == Executions && q.Stream != "":
		return invalid("stream", "a hook for executions takes a prefix of their sessions, or nothing")
	case q.Source == Executions && len(q.Types) > 0:
		return invalid("types", "a hook for executions tells of their ends alone")
	case q.Stream != "" && q.Prefix != "":
		return invalid("prefix", "a stream is given as well")
	case len(q.Prefix) > maxName || strings.ContainsFunc(q.Prefix, notInNames):
		return invalid("prefix", "it is at most %d letters, digits, '.', '_', '-' and '/'", maxName)
	case len(q.Types) > maxTypes:
		return invalid("types", "at most %d are taken", maxTypes)
	}
	if q.Stream != "" {
		key := reprise.StreamKey{Tenant: q.Tenant, Name: q.Stream}
		if err := key.Validate(); err != nil || strings.Contains(q.Stream, ":") {
			return invalid("stream", "it is no name of a stream")
		}
	}
	return nil
}

func notInTypes(r rune) bool { return r == '/' || notInNames(r) }

func notInNames(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-/", r))
}

// checkURL checks the form of a receiver's URL.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return invalid("url", "it has more than %d bytes", maxURL)
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return invalid("url", "a URL that begins with https:// or http:// is needed")
	case u.User != nil:
		return invalid("url", "lists would show the name and password in it; receivers check the signature")
	case u.Fragment != "":
		return invalid("url", "what is behind # is sent to no server")
	}
	return nil
}

// host returns the part of the URL that may be logged: the path may hold a secret.
func (h *Hook) host() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// wants reports whether the hook sends events of a type.
func (h *Hook) wants(kind string) bool { return len(h.Types) == 0 || slices.Contains(h.Types, kind) }

// Public returns a copy without secrets.
func (h *Hook) Public() Hook {
	c := *h
	c.Secrets = make([]Secret, len(h.Secrets))
	for i, s := range h.Secrets {
		c.Secrets[i] = Secret{Created: s.Created, Expires: s.Expires}
	}
	return c
}

// namespace is the prefix of the names of queues.
const namespace = "webhook:"

func (h *Hook) queueKey() reprise.StreamKey {
	return reprise.StreamKey{Tenant: h.Tenant, Name: namespace + h.ID}
}
