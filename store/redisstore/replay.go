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

// note remembers a page that was cut at maxBytes: another page will probably be requested. A page of very few batches
// says little about the others.
func (r *replays) note(page *reprise.Page, maxBytes int) {
	n, size := len(page.Batches), 0
	for i := range page.Batches {
		size += len(page.Batches[i].Bytes)
	}
	if n < fewBatches || size < maxBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bytes) >= mostReplays || r.bytes == nil {
		r.bytes = map[reprise.StreamKey]int{}
	}
	r.bytes[page.Info.Key] = max(1, size/n)
}

const (
	// fewBatches is the number of batches to request if nothing is known about a stream. It suffices near the tail.
	fewBatches = 4
	// mostBatches and mostGrowth bound what is requested in vain if the next batches are much larger than those
	// before: one request asks for at most mostBatches, and for mostGrowth times as many as the page has.
	mostBatches, mostGrowth = 1024, 8
)

// batches returns how many batches a page will probably take.
func (r *replays) batches(key reprise.StreamKey, maxBytes int) int {
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
func likely(maxBytes, bytes int) int {
	if bytes >= maxBytes {
		return 1
	}
	return min(maxBytes/bytes+2, mostBatches)
}

// replay reads a page with plain commands, in one transaction or in a few. done is false if the script must read the
// page.
func (s *Store) replay(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (
	got view, done bool, err error,
) {
	if s.cluster || s.opts.Wait > 0 {
		return got, false, nil
	}
	asked := s.replays.batches(key, maxBytes)
	got, size, err := s.take(ctx, key, after, maxBytes, asked)
	n := len(got.page.Batches)
	for err == nil && n == asked && complete(&got.page, after, maxBytes) != nil {
		var more view
		var added int
		count := min(likely(maxBytes-size, max(1, size/n)), mostGrowth*n)
		more, added, err = s.take(ctx, key, got.page.Batches[n-1].Last(), maxBytes-size, count)
		if err == nil && !got.extend(&more) {
			return got, false, nil
		}
		asked, size, n = asked+count, size+added, len(got.page.Batches)
	}
	if errors.Is(err, ErrDamaged) {
		return got, true, err
	}
	return got, err == nil && complete(&got.page, after, maxBytes) == nil, nil
}

// extend appends the batches of a later view, but none that was appended after got. It returns false if the stream may
// have lost events between the two views.
func (got *view) extend(more *view) bool {
	if more.page.Info.Epoch != got.page.Info.Epoch || more.server != got.server {
		return false
	}
	for _, b := range more.page.Batches {
		if b.Last() > got.page.Info.Tail {
			break
		}
		got.page.Batches = append(got.page.Batches, b)
	}
	return true
}

// errAskScript is returned if the script must find out what is wrong.
var errAskScript = errors.New("ask the script")

// take reads up to count batches. size is the sum of their bytes.
func (s *Store) take(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes, count int) (
	got view, size int, err error,
) {
	results := s.client.DoMulti(ctx,
		s.client.B().Multi().Build().ToRetryable(), s.client.B().Info().Section("replication").Build().ToRetryable(),
		s.client.B().Hmget().Key(s.keys.state(key)).Field(pageFields...).Build(),
		s.client.B().Xrange().Key(s.keys.batches(key)).Start("("+decimal(after)).End("+").Count(int64(count)).Build(),
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
var pageFields = []string{"e", "c", "b", "n", "s", "t", "k", "x", "p", "h", "l", "m", "v"}

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
