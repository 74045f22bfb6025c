package redisstore

import (
	"context"
	"sync"

	"github.com/redis/rueidis"

	"reprise"
)

// replays remembers how large the batches of streams are that are read page by page. A page of such a stream is read
// with plain commands in a transaction, which takes the server a fraction of what a script takes to copy it.
type replays struct {
	mu    sync.Mutex
	bytes map[reprise.StreamKey]int // of a batch, on average of the last page
}

// mostReplays bounds what is remembered.
const mostReplays = 1024

// note remembers a page that was cut by maxBytes: another one is likely to be asked for.
func (r *replays) note(page *reprise.Page, maxBytes int) {
	n, size := len(page.Batches), 0
	for i := range page.Batches {
		size += len(page.Batches[i].Bytes)
	}
	if n < 2 || size < maxBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bytes) >= mostReplays || r.bytes == nil {
		r.bytes = map[reprise.StreamKey]int{}
	}
	r.bytes[page.Info.Key] = max(1, size/n)
}

// batches is how many a page is likely to take, 0 if nothing is known.
func (r *replays) batches(key reprise.StreamKey, maxBytes int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes := r.bytes[key]; bytes > 0 {
		return int64(min(maxBytes/bytes+2, 4096))
	}
	return 0
}

// replay reads a page of a stream that is being replayed. done is false where the script is to read it.
func (s *Store) replay(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (page reprise.Page, done bool, err error) {
	if s.cluster || s.opts.Wait > 0 || maxBytes <= 0 {
		return page, false, nil
	}
	count := s.replays.batches(key, maxBytes)
	if count == 0 {
		return page, false, nil
	}
	b := s.client.B()
	commands := []rueidis.Completed{
		b.Multi().Build().ToRetryable(), s.client.B().Role().Build().ToRetryable(),
		s.client.B().Hmget().Key(s.keys.state(key)).Field(pageFields...).Build(),
		s.client.B().Xrange().Key(s.keys.batches(key)).Start("(" + decimal(after)).End("+").Count(count).Build(),
		s.client.B().Exec().Build().ToRetryable(),
	}
	results := s.client.DoMulti(ctx, commands...)
	answer, err := results[len(results)-1].ToArray()
	if err != nil || len(answer) != 3 || !isMaster(&answer[0]) {
		return page, false, nil // the script says what is wrong
	}
	st, err := parseValues(key, pageFields, &answer[1])
	if err != nil || st.marked || st.absent() || after >= st.info.Tail {
		return page, false, nil
	}
	entries, err := answer[2].ToArray()
	if err != nil {
		return page, false, nil
	}
	page.Info = st.info
	from := max(after+1, st.info.Earliest)
	for size := 0; len(entries) > 0 && size < maxBytes; entries = entries[1:] {
		b, last, err := parseEntry(&entries[0])
		if err != nil {
			return page, true, batchError(key, last, err)
		}
		if last < from { // it has left the window, and is still there
			continue
		}
		page.Batches = append(page.Batches, b)
		size += len(b.Bytes)
	}
	return page, complete(&page, after, maxBytes) == nil, nil
}

// pageFields are the fields of a state that a page needs: all that are shown.
var pageFields = []string{"e", "c", "b", "n", "s", "t", "k", "x", "p", "m"}

// isMaster reads the answer of ROLE.
func isMaster(role *rueidis.RedisMessage) bool {
	parts, err := role.ToArray()
	if err != nil || len(parts) == 0 {
		return false
	}
	name, err := parts[0].ToString()
	return err == nil && name == "master"
}

// parseEntry reads an entry as XRANGE gives it: its id, and its fields.
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
