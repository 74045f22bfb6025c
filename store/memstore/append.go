package memstore

import (
	"context"
	"slices"

	"reprise"
	"reprise/store/internal/driver"
)

// Append stores batches; see reprise.Store. It keeps the Bytes of each request
// and copies nothing.
func (s *Store) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if len(reqs) == 1 && ctx.Err() == nil && s.appendToLast(&reqs[0]) {
		return nil
	}
	if err := s.use(ctx); err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	defer s.mu.RUnlock()
	var errs []error
	for i := range reqs {
		if err := s.append(&reqs[i]); err != nil {
			errs = driver.Refuse(errs, len(reqs), i, err)
		}
	}
	return errs
}

// appendToLast stores a batch of the stream that was appended to last. It takes one lock in place of two and looks up
// nothing. It returns false if it has stored nothing, since there is more to do or to refuse.
func (s *Store) appendToLast(req *reprise.AppendRequest) bool {
	st := s.last.Load()
	if st == nil || st.info.Key != req.Key || st.info.Epoch != req.Epoch || req.End != nil {
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return !st.gone && st.append(req) == nil
}

// append stores one batch. The caller holds mu.
func (s *Store) append(req *reprise.AppendRequest) error {
	st := s.streams[req.Key]
	if st == nil || st.info.Epoch != req.Epoch {
		return reprise.ErrNotFound
	}
	if s.last.Load() != st {
		s.last.Store(st)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	err := st.append(req)
	if err == nil && req.End != nil {
		s.end(st, *req.End)
	}
	return err
}

// append stores one batch, except its End. The caller holds st.mu.
func (st *stream) append(req *reprise.AppendRequest) error {
	info := &st.info
	newOwner := req.Owner != info.Owner
	if newOwner && req.Owner.Fence <= info.Owner.Fence || info.End != nil || req.First != info.Tail+1 ||
		req.Revision != info.Revision {
		return driver.Refusal(info, req)
	}
	kept, bytes := info.Kept(), info.Bytes
	if newOwner {
		info.Owner = req.Owner
	}
	info.Tail += uint64(req.Count)
	info.Earliest = max(info.Earliest, req.Earliest)
	info.Bytes = req.Kept
	st.tenant.count(int64(info.Kept()-kept), info.Bytes-bytes)
	st.history.append(req.First, req.Count, req.Bytes)
	st.history.trim(info.Earliest)
	if len(req.Producers) > 0 {
		st.remember(req.Producers)
	}
	return nil
}

// end marks st as ended. The caller holds mu and, unless it holds mu for writing, st.mu.
func (s *Store) end(st *stream, end reprise.End) {
	st.info.End = &end
	st.expiry = &due{at: end.Expires, key: st.info.Key}
	s.ending.mu.Lock()
	defer s.ending.mu.Unlock()
	s.ending.queue.add(st.expiry)
}

// remember keeps the newest append of each producer. The caller holds st.mu.
func (st *stream) remember(fresh []reprise.Producer) {
	known := st.info.Producers
	if st.shared {
		known, st.shared = slices.Clone(known), false
	}
	st.info.Producers = driver.Remember(known, fresh)
}
