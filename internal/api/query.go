package api

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/httpserver"
)

// query holds the parameters of a request, each of which the route knows.
type query url.Values

// repeatable is the only parameter that may be given more than once.
const repeatable = "label"

// parseQuery refuses malformed, unknown and repeated parameters.
func parseQuery(raw string, known []string) (query, error) {
	if raw == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badRequest("", "the query cannot be read")
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return nil, badRequest(httpserver.Clip(name, 64), unknownParameter(name, known))
		}
		if len(given) > 1 && name != repeatable {
			return nil, badRequest(name, "the parameter is given twice")
		}
	}
	return query(values), nil
}

func unknownParameter(name string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("this call takes no parameters, so no %.64q", name)
	}
	return fmt.Sprintf("this call has no parameter %.64q; it takes %s", name, strings.Join(known, ", "))
}

func (q query) text(name string) string { return url.Values(q).Get(name) }

// number reads a parameter between minimum and maximum, or returns fallback if it is missing.
func (q query) number(name string, fallback, minimum, maximum int64) (int64, error) {
	text := q.text(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < minimum || n > maximum {
		return 0, badRequest(name, fmt.Sprintf("a number from %d to %d is taken", minimum, maximum))
	}
	return n, nil
}

func (q query) flag(name string) (bool, error) {
	switch q.text(name) {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, badRequest(name, "true or false is taken")
}

// duration reads a parameter such as "10s" of at most maximum, or returns 0 if it is missing.
func (q query) duration(name string, maximum time.Duration) (time.Duration, error) {
	text := q.text(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maximum {
		return 0, badRequest(name, fmt.Sprintf("a duration from 0s to %v is taken", maximum))
	}
	return d, nil
}

// The bounds of lists and pages.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// page reads what every list takes.
func (q query) page() (limit int, cursor string, err error) {
	n, err := q.number("limit", defaultLimit, 1, maxLimit)
	return int(n), q.text("cursor"), err
}

// listError returns err, or the problem of the parameter cursor if err refuses something and does not name it.
func (q query) listError(err error) error {
	_, named := errors.AsType[*execution.FieldError](err)
	if q.text("cursor") != "" && !named && errors.Is(err, reprise.ErrInvalid) {
		return badRequest("cursor", "it is not the next_cursor of a page of this list")
	}
	return err
}
