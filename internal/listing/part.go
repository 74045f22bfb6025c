package listing

import (
	"cmp"
	"context"

	"reprise"
)

// partSize is the usual number of streams that Part asks a Log for.
const partSize = 1000

// Part returns what match makes of the streams of one page of q, at most room of them, and without those for which it
// returns false. room is at least 1. If the page has more, it is read again up to the last one that fits, so that next
// continues there. next is "" after the last page. The page has q.Limit streams, 1,000 if that is 0. The errors are
// those of Log.List.
func Part[T any](ctx context.Context, log *reprise.Log, q reprise.ListQuery, room int,
	match func(*reprise.StreamInfo) (T, bool),
) (found []T, next string, err error) {
	for q.Limit = cmp.Or(q.Limit, partSize); ; {
		page, err := log.List(ctx, q)
		if err != nil {
			return nil, "", err
		}
		fitting := len(page.Streams)
		found = found[:0]
		for i := range page.Streams {
			one, ok := match(&page.Streams[i])
			if !ok {
				continue
			}
			if len(found) == room {
				fitting = i
				break
			}
			found = append(found, one)
		}
		if fitting == len(page.Streams) {
			return found, page.Next, nil
		}
		q.Limit = fitting
	}
}

// Continued returns next if a stream that matches follows, and "" otherwise: a position behind which there is nothing
// that may be seen would reveal that there is something else.
func Continued[T any](ctx context.Context, log *reprise.Log, q reprise.ListQuery, next string,
	match func(*reprise.StreamInfo) (T, bool),
) (string, error) {
	q.Limit = 0
	for q.After = next; q.After != ""; {
		found, after, err := Part(ctx, log, q, 1, match)
		if err != nil || len(found) > 0 {
			return next, err
		}
		q.After = after
	}
	return "", nil
}
