package web

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/problem"
)

// Query holds the parameters of a request, each of which the route knows.
type Query url.Values

// repeatable is the only parameter that may be given more than once.
const repeatable = "label"

// parseQuery refuses malformed, unknown and repeated parameters.
func parseQuery(raw string, known []string) (Query, error) {
	if raw == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, BadRequest("", "the query cannot be read")
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return nil, BadRequest(httpserver.Clip(name, 64), unknownParameter(name, known))
		}
		if len(given) > 1 && name != repeatable {
			return nil, BadRequest(name, "the parameter is given twice")
		}
	}
	return Query(values), nil
}

func unknownParameter(name string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("this call takes no parameters, so no %.64q", name)
	}
	return fmt.Sprintf("this call has no parameter %.64q; it takes %s", name, strings.Join(known, ", "))
}

// Text returns a parameter, "" if it is missing.
func (q Query) Text(name string) string { return url.Values(q).Get(name) }

// Number reads a parameter between minimum and maximum, or returns fallback if it is missing.
func (q Query) Number(name string, fallback, minimum, maximum int64) (int64, error) {
	text := q.Text(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < minimum || n > maximum {
		return 0, BadRequest(name, fmt.Sprintf("a number from %d to %d is taken", minimum, maximum))
	}
	return n, nil
}

// Flag reads a parameter that is true or false.
func (q Query) Flag(name string) (bool, error) {
	switch q.Text(name) {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, BadRequest(name, "true or false is taken")
}

// Duration reads a parameter such as "10s" of at most maximum, or returns 0 if it is missing.
func (q Query) Duration(name string, maximum time.Duration) (time.Duration, error) {
	text := q.Text(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maximum {
		return 0, BadRequest(name, fmt.Sprintf("a duration from 0s to %v is taken", maximum))
	}
	return d, nil
}

// The bounds of lists and pages.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Page reads what every list takes.
func (q Query) Page() (limit int, cursor string, err error) {
	n, err := q.Number("limit", DefaultLimit, 1, MaxLimit)
	return int(n), q.Text("cursor"), err
}

// ListError returns err, or the problem of the parameter cursor if err refuses something and does not name it.
func (q Query) ListError(err error) error {
	if q.Text("cursor") != "" && errors.Is(err, reprise.ErrInvalid) && problem.From(err).Field == "" {
		return BadRequest("cursor", "it is not the next_cursor of a page of this list")
	}
	return err
}
