package logstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"reprise"
	"reprise/store/internal/driver"
)

// Append stores all batches in one commit, which it may share with other calls.
func (s *Store) Append(ctx context.Context, reqs []reprise.AppendRequest) (errs []error) {
	defer func() { driver.Map(ctx, errs, storeError) }()
	if err := s.use.Enter(ctx); err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	defer s.use.Leave()
	err := s.commit(ctx, &change{stage: func(g *group) error {
		streams := make([]*stream, len(reqs))
		for i := range reqs {
			streams[i] = s.rouse(s.streams.find(reqs[i].Key))
			if st := streams[i]; st != nil && st.group == g.number {
				return errLater
			}
		}
		errs = nil // of an earlier try
		for i := range reqs {
			if err := g.stageAppend(streams[i], &reqs[i]); err != nil {
				errs = driver.Refuse(errs, len(reqs), i, err)
			}
		}
		return nil
	}})
	if err == nil {
		return errs
	}
	return driver.Fail(errs, len(reqs), err)
}

// stageAppend adds a batch of st, which may be nil or a mark, to the group, or returns why it is rejected.
func (g *group) stageAppend(st *stream, req *reprise.AppendRequest) error {
	if st == nil || st.mark {
		return reprise.ErrNotFound
	}
	info := st.info()
	if err := accepts(&info, req); err != nil {
		return err
	}
	if g.touch(st) != nil {
		return fmt.Errorf("%w: two batches of one stream in a commit", reprise.ErrConflict)
	}
	g.append(st.id, info.Owner, req)
	g.records[len(g.records)-1].stream = st
	return nil
}

// append adds a batch of a stream whose current owner is owner.
func (g *group) append(id uint64, owner reprise.Owner, req *reprise.AppendRequest) {
	r := record{
		kind: kindAppend, id: id, first: req.First, count: uint64(req.Count), earliest: req.Earliest, kept: req.Kept,
		producers: req.Producers, bytes: req.Bytes,
	}
	if req.End != nil {
		end := *req.End
		end.Data = bytes.Clone(end.Data)
		r.end = &end
	}
	if req.Owner != owner {
		r.owner = &req.Owner
	}
	g.add(r)
}

// accepts returns the first reason not to store req in a stream, or nil.
func accepts(info *reprise.StreamInfo, req *reprise.AppendRequest) error {
	if err := driver.Refusal(info, req); err != nil {
		return err
	}
	if req.Count < 1 || req.Count > math.MaxUint32 {
		return fmt.Errorf("%w: a batch of %d events", reprise.ErrInvalid, req.Count)
	}
	return nil
}

// create implements Create if first is nil, and CreateAppend otherwise.
func (s *Store) create(ctx context.Context, info reprise.StreamInfo,
	first *reprise.AppendRequest,
) (_ reprise.StreamInfo, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	defer s.use.Leave()
	if info.Revision > 0 {
		return s.configure(ctx, &info)
	}
	if len(info.Key.Name) > maxName {
		return reprise.StreamInfo{}, fmt.Errorf("%w: a name of %d bytes", reprise.ErrInvalid, len(info.Key.Name))
	}
	fresh := freshInfo(&info)
	made := fresh
	if first != nil {
		if err := accepts(&fresh, first); err != nil {
			return reprise.StreamInfo{}, err
		}
		made = filledInfo(fresh, first)
	}
	kept := made
	err = s.commit(ctx, &change{stage: func(g *group) error {
		if st := s.rouse(s.streams.find(info.Key)); st != nil {
			if !st.mark && st.group != g.number {
				kept = st.info()
				if !kept.Config.Equal(info.Config) {
					return reprise.ErrConflict
				}
				return nil
			}
			if err := g.touch(st); err != nil {
				return err
			}
		}
		if shared := s.config(&fresh.Config); shared != nil { // the caller may keep the stream in memory
			fresh.Config, made.Config = *shared, *shared
		}
		kept = made // an earlier group may have staged this call and found the stream
		id, err := g.create(fresh)
		if err == nil && first != nil {
			g.append(id, fresh.Owner, first)
		}
		return err
	}})
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	return kept, nil
}

// Create creates or finds a stream; see reprise.Store. The stream is durable when Create returns.
func (s *Store) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	return s.create(ctx, info, nil)
}

// CreateAppend creates a stream with its first batch, or finds it; see reprise.CreateAppender. Both records are in one
// frame, which is recovered completely or not at all.
func (s *Store) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	return s.create(ctx, info, &first)
}

// create adds a stream to the group, and returns its id.
func (g *group) create(info reprise.StreamInfo) (id uint64, err error) {
	if _, ok := g.created[info.Key]; ok {
		return 0, errLater
	}
	if err := g.keepBound(); err != nil {
		return 0, err
	}
	if g.created == nil {
		g.created = map[reprise.StreamKey]struct{}{}
	}
	g.created[info.Key] = struct{}{}
	id = g.s.lastID + uint64(len(g.created))
	g.add(record{kind: kindCreate, id: id, info: &info})
	return id, nil
}

// forgotten is the number of marks that go at once to make room for streams.
const forgotten = 256

// keepBound makes room for one more stream: where there are as many streams and marks as there may be, the marks go
// that end first. The stream may replace a mark, which is one too many then.
func (g *group) keepBound() error {
	most, held := g.s.opts.MaxStreams, g.s.streams.len()-g.forgot+len(g.created)
	if held < most {
		return nil
	}
	for _, mark := range g.s.marks.first(maxTime, forgotten, g.s.takeDue(true)) {
		if g.touch(mark) == nil {
			g.add(record{kind: kindRemove, id: mark.id})
			g.forgot++
		}
	}
	switch {
	case held-g.forgot < most:
		return nil
	case g.forgot > 0:
		return errLater
	}
	return fmt.Errorf("%w: the log keeps %d streams, the most it may; see --max-streams", reprise.ErrQuota, held)
}

// maxTime is after the end of each mark.
var maxTime = time.Unix(math.MaxInt32<<20, 0)

// filledInfo returns the info of a stream that was created with its first batch.
func filledInfo(info reprise.StreamInfo, first *reprise.AppendRequest) reprise.StreamInfo {
	info.Tail, info.Bytes = first.First+uint64(first.Count)-1, first.Kept
	info.Earliest = max(info.Earliest, first.Earliest)
	info.Producers = driver.Remember(nil, first.Producers)
	if first.End != nil {
		end := *first.End
		end.Data = bytes.Clone(end.Data)
		info.End = &end
	}
	return info
}

// freshInfo returns the stream that Create makes from info. It shares no memory with the caller.
func freshInfo(info *reprise.StreamInfo) reprise.StreamInfo {
	fresh := reprise.StreamInfo{
		Key: info.Key, Epoch: info.Epoch, Config: info.Config, Created: info.Created, Owner: info.Owner,
		Earliest: info.Tail + 1, Tail: info.Tail, Producers: slices.Clone(info.Producers),
		Lineage: slices.Clone(info.Lineage),
	}
	fresh.Config.Labels = maps.Clone(info.Config.Labels)
	fresh.Config.Meta = bytes.Clone(info.Config.Meta)
	if info.End != nil {
		end := *info.End
		end.Data = bytes.Clone(end.Data)
		fresh.End = &end
	}
	return fresh
}
