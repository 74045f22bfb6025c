package mcpapi

import (
	"errors"
	"strconv"
	"strings"

	"reprise"
	"reprise/internal/web"
)

// listEach fills a page with the items of one endpoint of MCP after those of another. list returns at most limit items
// of an endpoint that follow the position after, and the position behind them, "" for the end. A cursor consists of the
// number of an endpoint and a position there.
func listEach[E, T any](x *web.Exchange, endpoints []E,
	list func(e *E, limit int, after string) (items []T, next string, err error),
) (shown []T, next string, err error) {
	limit, cursor, err := x.Query.Page()
	if err != nil {
		return nil, "", err
	}
	at, after := 0, ""
	if cursor != "" {
		number, rest, _ := strings.Cut(cursor, ".")
		if at, err = strconv.Atoi(number); err != nil || at < 0 || at >= len(endpoints) {
			return nil, "", web.BadRequest("cursor", "it is not the next_cursor of a page of this list")
		}
		after = rest
	}
	shown = []T{}
	for ; at < len(endpoints); at, after = at+1, "" {
		if len(shown) == limit {
			return shown, strconv.Itoa(at) + ".", nil
		}
		items, next, err := list(&endpoints[at], limit-len(shown), after)
		if err != nil {
			return nil, "", err
		}
		shown = append(shown, items...)
		if next != "" {
			return shown, strconv.Itoa(at) + "." + next, nil
		}
	}
	return shown, "", nil
}

// findIn calls find for each endpoint of MCP until one has what is requested. The error is reprise.ErrNotFound if none
// has it.
func findIn[E any](endpoints []E, find func(*E) error) error {
	for i := range endpoints {
		if err := find(&endpoints[i]); !errors.Is(err, reprise.ErrNotFound) {
			return err
		}
	}
	return reprise.ErrNotFound
}
