package redisstore

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/rueidis"

	"reprise"
)

// replays remembers the batch sizes of streams that are read page by page. Their pages can then be read with plain
// commands, which cost the server a fraction of a script, and with few batches more than the page takes.
type replays struct {
	mu    sync.Mutex
	bytes map[reprise.StreamKey]int // average size of a batch of the last page
}

// mostReplays bounds the number of remembered streams.
const mostReplays = 1024

// note remembers a page that was cut at maxBytes: another page will probably be requested.
func (r *replays) note(page *reprise.Page, maxBytes int) {
	n, size := len(page.Batches), 0
	for i := range page.Batches {
		size += len(page.Batches[i].Bytes)
	}
	if n == 0 || size < maxBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bytes) >= mostReplays || r.bytes == nil {
		r.bytes = map[reprise.StreamKey]int{}
	}
	r.bytes[page.Info.Key] = max(1, size/n)
}

// fewBatches is the number of batches to request if nothing is known about a stream. It suffices near the tail.
const fewBatches = 4

// batches returns how many batches a page will probably take.
func (r *replays) batches(key reprise.StreamKey, maxBytes int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes := r.bytes[key]; bytes > 0 && maxBytes > 0 {
		return likely(maxBytes, bytes)
	}
	if maxBytes <= 0 { // only the state is requested
		return 1
	}
	return fewBatches
}

// likely returns how many batches of the given size reach maxBytes, plus one if they are small.
func likely(maxBytes, bytes int) int64 {
	if bytes >= maxBytes {
		return 1
	}
	return int64(min(maxBytes/bytes+2, 4096))
}

// replay reads a page with plain commands in a transaction. done is false if the script must read the page.
func (s *Store) replay(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (
	got view, done bool, err error,
) {
	if s.cluster || s.opts.Wait > 0 {
		return got, false, nil
	}
	count := s.replays.batches(key, maxBytes)
	got, size, err := s.take(ctx, key, after, maxBytes, count)
	if err == nil && size > 0 && int64(len(got.page.Batches)) == count && complete(&got.page, after, maxBytes) != nil {
		got, _, err = s.take(ctx, key, after, maxBytes, likely(maxBytes, max(1, size/len(got.page.Batches))))
	}
	if errors.Is(err, ErrDamaged) {
		return got, true, err
	}
	return got, err == nil && complete(&got.page, after, maxBytes) == nil, nil
}

// errAskScript is returned if the script must find out what is wrong.
var errAskScript = errors.New("ask the script")

// take reads up to count batches. size is the sum of their bytes.
func (s *Store) take(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int, count int64) (
	got view, size int, err error,
) {
	results := s.client.DoMulti(ctx,
		s.client.B().Multi().Build().ToRetryable(), s.client.B().Info().Section("replication").Build().ToRetryable(),
		s.client.B().Hmget().Key(s.keys.state(key)).Field(pageFields...).Build(),
		s.client.B().Xrange().Key(s.keys.batches(key)).Start("("+decimal(after)).End("+").Count(count).Build(),
		s.client.B().Exec().Build().ToRetryable())
	answer, err := results[len(results)-1].ToArray()
	if err != nil || len(answer) != 3 {
		return got, 0, errAskScript
	}
	if got.server, err = parseHistory(&answer[0]); err != nil || !got.server.master {
		return got, 0, errAskScript
	}
	st, err := parseValues(key, pageFields, &answer[1])
	if err != nil || st.marked || st.absent() {
		return got, 0, errAskScript
	}
	entries, err := answer[2].ToArray()
	if err != nil {
		return got, 0, errAskScript
	}
	got.history = st.history
	got.page.Info = st.info
	if after >= st.info.Tail {
		return got, 0, nil
	}
	from := max(after+1, st.info.Earliest)
	for ; len(entries) > 0 && size < maxBytes; entries = entries[1:] {
		b, last, err := parseEntry(&entries[0])
		if err != nil {
			return got, size, batchError(key, last, err)
		}
		if last < from { // the entry has left the window, but was not deleted yet
			continue
		}
		got.page.Batches = append(got.page.Batches, b)
		size += len(b.Bytes)
	}
	return got, size, nil
}

// pageFields are the fields of a state that a page needs: those that it shows, and those that tell whether the server
// has changed since the last append.
var pageFields = []string{"e", "c", "b", "n", "s", "t", "k", "x", "p", "h", "l", "m"}

// parseEntry parses an entry in the form of XRANGE: its id and its fields.
func parseEntry(entry *rueidis.RedisMessage) (b reprise.Batch, last uint64, err error) {
	parts, err := entry.ToArray()
	if err != nil || len(parts) != 2 {
		return b, 0, ErrDamaged
	}
	fields, err := parts[1].ToArray()
	if err != nil || len(fields) != 4 {
		return b, 0, ErrDamaged
	}
	return parseBatch([]rueidis.RedisMessage{parts[0], fields[1], fields[3]})
}
