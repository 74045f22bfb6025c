package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"reprise"
)

// indexed is a message of the index.
type indexed struct {
	seq     uint64
	subject string
	body    []byte
	at      time.Time
}

// find reads up to limit messages of the index, with sequences from from up to but not including before, oldest first.
// With several servers it asks the leader, one message at a time.
func (s *Store) find(ctx context.Context, filter string, from, before uint64, limit int) ([]indexed, error) {
	var found []indexed
	for from < before && len(found) < limit {
		n := len(found)
		var err error
		if s.single {
			found, err = s.findSome(ctx, filter, from, before, limit, found)
		} else {
			found, err = s.findNext(ctx, filter, from, before, found)
		}
		if err != nil || len(found) == n {
			return found, err
		}
		from = found[len(found)-1].seq + 1
	}
	return found, nil
}

func (s *Store) findSome(ctx context.Context, filter string, from, before uint64, limit int, found []indexed) (
	[]indexed, error,
) {
	req := &getRequest{
		Seq:      from,
		Next:     filter,
		Batch:    int(min(uint64(limit-len(found)), before-from, maxMessages)),
		MaxBytes: maxFetch,
	}
	_, err := s.direct(ctx, s.index, req, func(msg *nats.Msg) error {
		seq, err := sequenceOf(msg)
		if err != nil || seq >= before {
			return err
		}
		at, err := time.Parse(time.RFC3339Nano, msg.Header.Get(headerTime))
		found = append(found, indexed{seq: seq, subject: msg.Header.Get(headerSubject), body: msg.Data, at: at})
		return err
	})
	return found, err
}

func (s *Store) findNext(ctx context.Context, filter string, from, before uint64, found []indexed) ([]indexed, error) {
	var answer stored
	err := s.request(ctx, "STREAM.MSG.GET."+s.index, &getRequest{Seq: from, Next: filter}, &answer)
	if isCode(err, codeNoMessage) {
		return found, s.confirmReadable(ctx, s.index)
	}
	if m := &answer.Message; err == nil && m.Seq < before {
		found = append(found, indexed{seq: m.Seq, subject: m.Subject, body: m.Data, at: m.Time})
	}
	return found, err
}

// List returns streams; see reprise.Store. They are in the order of their records in the index, which List reads
// backward from the newest. It then reads the state of each stream. It leaves out damaged streams.
func (s *Store) List(ctx context.Context, q reprise.ListQuery) (_ reprise.ListPage, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	return s.list(ctx, q, s.leaveOut)
}

// leaveOut logs a damaged stream that a call leaves out, so that the damage does not block the others.
func (s *Store) leaveOut(err error) { s.logger.Error("left out", "error", err) }

// list is List, and calls damaged for each stream that it leaves out.
func (s *Store) list(ctx context.Context, q reprise.ListQuery, damaged func(error)) (reprise.ListPage, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return reprise.ListPage{}, err
	}
	defer leave()
	server := s.server()
	info, err := s.streamInfo(ctx, s.index, "")
	if err != nil {
		return reprise.ListPage{}, err
	}
	before := info.State.LastSeq + 1
	if q.After != "" {
		n, err := strconv.ParseUint(q.After, 10, 64)
		if err != nil || n == 0 || n >= before || strconv.FormatUint(n, 10) != q.After {
			return reprise.ListPage{}, fmt.Errorf("%w: %.40q is not a list cursor", reprise.ErrInvalid, q.After)
		}
		before = n
	}
	scope, ok := s.subjects.scope(&q)
	if !ok {
		return reprise.ListPage{}, nil
	}
	w := &walk{s: s, server: server, scope: scope, first: max(1, info.State.FirstSeq), before: before, damaged: damaged}
	return w.page(ctx, q.Limit)
}

// walk reads the index from its end to its beginning.
type walk struct {
	s      *Store
	server string // that the sequences are of
	scope  string
	first  uint64
	before uint64 // the rest of the index is before this sequence

	damaged func(error)
}

// page collects streams until it has one more than limit, or all.
func (w *walk) page(ctx context.Context, limit int) (reprise.ListPage, error) {
	var page reprise.ListPage
	var place uint64 // sequence of the record of the last stream on the page
	for width := uint64(max(32, limit+limit/4)); w.before > w.first; {
		from := w.first
		if w.before-w.first > width {
			from = w.before - width
		}
		records, err := w.s.find(ctx, w.scope, from, w.before, int(min(width, 1<<30)))
		if err != nil {
			return reprise.ListPage{}, err
		}
		slices.Reverse(records)
		infos, err := w.living(ctx, records)
		if err != nil {
			return reprise.ListPage{}, err
		}
		for i, info := range infos {
			if info == nil {
				continue
			}
			if len(page.Streams) == limit {
				page.Next = strconv.FormatUint(place, 10)
				return page, nil
			}
			info.Producers = nil
			page.Streams = append(page.Streams, *info)
			place = records[i].seq
		}
		w.before = from
		if uint64(len(records)) < width/4 && len(records) < limit {
			width *= 4 // much of the index does not match, or was removed
		}
	}
	return page, nil
}

// living finds the streams of records. The result is nil for streams that were removed.
func (w *walk) living(ctx context.Context, records []indexed) ([]*reprise.StreamInfo, error) {
	infos, errs := make([]*reprise.StreamInfo, len(records)), make([]error, len(records))
	parallel(len(records), func(i int) { infos[i], errs[i] = w.livingOne(ctx, &records[i]) })
	for i, err := range errs {
		switch {
		case errors.Is(err, errGone): // just removed, or damaged, which a read reports
			infos[i] = nil
		case isDamage(err):
			w.damaged(err)
			infos[i] = nil
		case err != nil:
			return nil, err
		}
	}
	return infos, nil
}

// orphanAge is the age after which a record of the index without a stream counts as abandoned.
const orphanAge = 10 * time.Minute

func (w *walk) livingOne(ctx context.Context, r *indexed) (*reprise.StreamInfo, error) {
	s := w.s
	key, err := s.subjects.keyOf(r.subject)
	if err != nil {
		return nil, err
	}
	last, err := s.last(ctx, key)
	if err != nil {
		return nil, err
	}
	if last == nil || last.gone || last.index != r.seq {
		used := last != nil && !last.gone && last.config == r.seq
		if !used && time.Since(r.at) > orphanAge {
			s.tidy.delete(w.server, s.index, r.seq)
		}
		return nil, nil
	}
	if rec := s.cache.record(r.seq); last.config == 0 && (rec == nil || !rec.fits(key, last.state)) {
		rec, err := decodeRecord(key, r.body)
		if err != nil {
			return nil, s.explain(key, err)
		}
		s.cache.addRecord(r.seq, rec)
	}
	info, err := s.info(ctx, key, last.state)
	return &info, err
}
