package memo

import (
	"bytes"
	"context"
	"errors"

	"reprise"
)

// Search looks for the records of one name.
type Search struct {
	book   *Book
	name   string
	bucket reprise.StreamKey

	epoch reprise.Epoch
	seq   uint64 // up to which the bucket was read
	found []reprise.Event
}

// Search returns a Search for a name of a tenant.
func (b *Book) Search(tenant reprise.Tenant, name string) *Search {
	return &Search{book: b, name: name, bucket: b.bucket(tenant, name)}
}

// Records returns the records of the name whose time is not past, the oldest first. Called again, it reads the bucket
// only if something was added meanwhile.
func (q *Search) Records(ctx context.Context) ([]reprise.Event, error) {
	s, err := q.book.log.Stream(ctx, q.bucket)
	var info reprise.StreamInfo
	if err == nil {
		info, err = s.Info(ctx)
	}
	if isOver(err) {
		return nil, nil
	}
	if err != nil || info.Epoch == q.epoch && info.Tail == q.seq {
		return q.found, err
	}
	q.found, q.epoch, q.seq = nil, "", 0
	prefix := []byte(q.name + "\n")
	err = Each(ctx, s, 1, info.Tail, func(e *reprise.Event) {
		if bytes.HasPrefix(e.Data, prefix) && !q.book.IsPast(e) {
			q.found = append(q.found, *e)
		}
	})
	if err != nil {
		return nil, err
	}
	q.epoch, q.seq = info.Epoch, info.Tail
	return q.found, nil
}

// Each calls f with the kept events of s from first to last. The events are valid after f has returned.
func Each(ctx context.Context, s *reprise.Stream, first, last uint64, f func(*reprise.Event)) error {
	reader, err := s.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	if info := reader.Info(); first > info.Earliest {
		if err := reader.Seek(reprise.After(s.Cursor(first - 1))); err != nil {
			return err
		}
	}
	for {
		events, err := reader.Poll(ctx)
		if lost, ok := errors.AsType[*reprise.WindowError](err); ok && lost.Reason == reprise.CursorExpired {
			if err := reader.Seek(reprise.Earliest()); err != nil { // old ones were removed meanwhile
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		for e := range events.All() {
			if e.Seq > last {
				return nil
			}
			f(&e)
		}
		if events.Len() == 0 || events.Last() >= last {
			return nil
		}
	}
}
