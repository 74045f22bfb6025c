package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"reprise"
)

// Read takes the state and the batches from Redis in one script or transaction, which is a consistent view in one round
// trip. A stream that may have lost events moves to another epoch first and is then read again.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (
	_ reprise.Page, err error,
) {
	defer func() { err = storeError(ctx, err) }()
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return reprise.Page{}, err
	}
	defer leave()
	for range adoptRounds {
		got, done, err := s.replay(bounded, key, after, maxBytes)
		if !done {
			got, err = s.view(bounded, ctx, key, after, maxBytes)
		}
		if err != nil {
			return reprise.Page{}, err
		}
		doubtful, err := s.mayHaveLost(bounded, &got.page.Info, got.history, &got.server)
		if err != nil {
			return reprise.Page{}, err
		}
		if !doubtful {
			s.replays.note(&got.page, maxBytes)
			return got.page, nil
		}
		if err := s.adopt(bounded, key, got.page.Info.Epoch); err != nil {
			return reprise.Page{}, err
		}
	}
	return reprise.Page{}, errOtherServer
}

// view is a page and what is needed to decide whether the stream may have lost events.
type view struct {
	page    reprise.Page
	history string // id of the server's history at the last append
	server  history
}

// view reads a page with the script. asked is the caller's context.
func (s *Store) view(ctx, asked context.Context, key reprise.StreamKey, after uint64, maxBytes int) (
	got view, err error,
) {
	c := call{
		keys: []string{s.keys.state(key), s.keys.batches(key)},
		args: []string{decimal(after), strconv.Itoa(maxBytes)},
	}
	answer, err := s.run(ctx, readScript, s.opts.Wait, c)[0].ToArray()
	if err != nil {
		return got, storeError(asked, err)
	}
	if len(answer) != 3 {
		return got, fmt.Errorf("%w: stream %s: an answer of %d parts", ErrDamaged, key, len(answer))
	}
	fields, err := answer[0].AsStrSlice()
	if err != nil {
		return got, storeError(asked, err)
	}
	st, err := parseState(key, fields)
	switch {
	case err != nil:
		return got, err
	case st.marked:
		return got, reprise.ErrExpired
	case st.absent():
		return got, reprise.ErrNotFound
	}
	got.page.Info, got.history = st.info, st.history
	if got.server, err = parseHistory(&answer[2]); err != nil {
		return got, err
	}
	if got.page.Batches, err = parseBatches(key, &answer[1]); err != nil {
		return got, err
	}
	return got, complete(&got.page, after, maxBytes)
}

// entryParts is the number of texts for a batch in the answer: id, head and bytes.
const entryParts = 3

func parseBatches(key reprise.StreamKey, answer *rueidis.RedisMessage) ([]reprise.Batch, error) {
	parts, err := answer.ToArray()
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	batches := make([]reprise.Batch, 0, len(parts)/entryParts)
	for ; len(parts) >= entryParts; parts = parts[entryParts:] {
		b, last, err := parseBatch(parts)
		if err != nil {
			return nil, batchError(key, last, err)
		}
		batches = append(batches, b)
	}
	return batches, nil
}

func batchError(key reprise.StreamKey, last uint64, err error) error {
	return fmt.Errorf("stream %s: the batch that ends with %d: %w", key, last, err)
}

// parseBatch parses id, head and bytes.
func parseBatch(parts []rueidis.RedisMessage) (b reprise.Batch, last uint64, err error) {
	id, err := parts[0].ToString()
	if err != nil {
		return b, 0, err
	}
	id, _, _ = strings.Cut(id, "-")
	if last, err = strconv.ParseUint(id, 10, 64); err != nil {
		return b, 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	head, err := parts[1].ToString()
	if err != nil {
		return b, last, err
	}
	counted, summed, _ := strings.Cut(head, " ")
	count, cerr := strconv.ParseUint(counted, 10, 64)
	sum, serr := strconv.ParseUint(summed, 10, 32)
	if cerr != nil || serr != nil || count < 1 || count > last {
		return b, last, fmt.Errorf("%w: the head is %q", ErrDamaged, head)
	}
	if b.Bytes, err = parts[2].AsBytes(); err != nil {
		return b, last, err
	}
	b.First, b.Count = last-count+1, int(count)
	if uint32(sum) != checksum(b.First, b.Count, b.Bytes) {
		return b, last, fmt.Errorf("%w: the checksum does not hold", ErrDamaged)
	}
	return b, last, nil
}

// complete verifies that a page holds everything it must hold, because keys may be evicted or changed by other
// programs.
func complete(page *reprise.Page, after uint64, maxBytes int) error {
	info := &page.Info
	if after >= info.Tail || info.Earliest > info.Tail || maxBytes <= 0 {
		return nil
	}
	next, size := max(after+1, info.Earliest), 0
	for i, b := range page.Batches {
		if i == 0 && b.First <= next || b.First == next {
			next = b.Last() + 1
			size += len(b.Bytes)
			continue
		}
		return missing(info, next, b.First-1)
	}
	if next <= info.Tail && size < maxBytes {
		return missing(info, next, info.Tail)
	}
	return nil
}

func missing(info *reprise.StreamInfo, from, to uint64) error {
	return fmt.Errorf("%w: stream %s: events %d to %d are missing", ErrDamaged, info.Key, from, to)
}
