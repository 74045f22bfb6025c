package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"reprise"
)

// Read takes state and batches from Redis in one script or transaction, which is one view and one round trip.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return reprise.Page{}, err
	}
	defer leave()
	page, done, err := s.replay(bounded, key, after, maxBytes)
	if !done {
		page, err = s.page(bounded, ctx, key, after, maxBytes)
	}
	if err != nil {
		return reprise.Page{}, err
	}
	s.replays.note(&page, maxBytes)
	return page, nil
}

// page reads a page with the script. asked is the context of the caller.
func (s *Store) page(ctx, asked context.Context, key reprise.StreamKey, after uint64, maxBytes int) (page reprise.Page, err error) {
	c := call{
		keys: []string{s.keys.state(key), s.keys.batches(key)},
		args: []string{decimal(after), strconv.Itoa(maxBytes)},
	}
	answer, err := s.run(ctx, readScript, s.opts.Wait, c)[0].ToArray()
	if err != nil {
		return page, failed(asked, err)
	}
	if len(answer) != 2 {
		return page, fmt.Errorf("%w: stream %s: an answer of %d parts", ErrDamaged, key, len(answer))
	}
	fields, err := answer[0].AsStrSlice()
	if err != nil {
		return page, failed(asked, err)
	}
	st, err := parseState(key, fields)
	switch {
	case err != nil:
		return page, err
	case st.marked:
		return page, reprise.ErrExpired
	case st.absent():
		return page, reprise.ErrNotFound
	}
	page.Info = st.info
	if page.Batches, err = parseBatches(key, &answer[1]); err != nil {
		return page, err
	}
	return page, complete(&page, after, maxBytes)
}

// entryParts is how many texts a batch is in the answer: id, head, bytes.
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

// parseBatch reads id, head and bytes.
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

// complete makes sure that a page has all that it must have, since keys may be evicted or changed by others.
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
