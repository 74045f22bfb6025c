package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"reprise"
)

// Read takes state and batches from Redis in one script, which is one view and one round trip.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return reprise.Page{}, err
	}
	defer leave()
	c := call{
		keys: []string{s.keys.state(key), s.keys.batches(key)},
		args: []string{decimal(after), strconv.Itoa(maxBytes)},
	}
	answer, err := s.run(bounded, readScript, s.opts.Wait, c)[0].ToArray()
	if err != nil {
		return reprise.Page{}, failed(ctx, err)
	}
	if len(answer) != 2 {
		return reprise.Page{}, fmt.Errorf("%w: stream %s: an answer of %d parts", ErrDamaged, key, len(answer))
	}
	fields, err := answer[0].AsStrSlice()
	if err != nil {
		return reprise.Page{}, failed(ctx, err)
	}
	st, err := parseState(key, fields)
	switch {
	case err != nil:
		return reprise.Page{}, err
	case st.marked:
		return reprise.Page{}, reprise.ErrExpired
	case st.absent():
		return reprise.Page{}, reprise.ErrNotFound
	}
	page := reprise.Page{Info: st.info}
	if page.Batches, err = parseBatches(key, &answer[1]); err == nil {
		err = complete(&page, after, maxBytes)
	}
	if err != nil {
		return reprise.Page{}, err
	}
	return page, nil
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
			return nil, fmt.Errorf("stream %s: the batch that ends with %d: %w", key, last, err)
		}
		batches = append(batches, b)
	}
	return batches, nil
}

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
