package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"reprise"
)

// listing is what the last first page of a list has found, for the pages after it.
type listing struct {
	mu     sync.Mutex
	tenant reprise.Tenant
	lives  []life // the newest of each stream, the newest first
	known  bool
}

// List returns archived streams; see reprise.Store. A first page reads the names of all files, or of one tenant's,
// and takes about 200 bytes of memory for each until the next first page. The following pages continue in its
// result. List opens the file of each returned stream, several at a time. A stream with a damaged file is listed with
// the data in the name of the file; Read returns the error.
func (s *Store) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	if err := s.enter(ctx); err != nil {
		return reprise.ListPage{}, err
	}
	defer s.use.RUnlock()
	var after life
	if q.After != "" {
		l, ok := parseLife(q.After)
		if !ok {
			return reprise.ListPage{}, fmt.Errorf("%w: %q is not a list cursor", reprise.ErrInvalid, q.After)
		}
		after = l
	}
	lives, err := s.lives(ctx, q.Tenant, q.After == "")
	if err != nil {
		return reprise.ListPage{}, err
	}
	if q.After != "" {
		at, found := slices.BinarySearchFunc(lives, after, life.compare)
		if found {
			at++
		}
		lives = lives[at:]
	}
	var chosen []life
	var next string
	for _, l := range lives {
		if !q.AllNamespaces && l.key.Namespace() != q.Namespace {
			continue
		}
		if len(chosen) == q.Limit {
			next = chosen[len(chosen)-1].file()
			break
		}
		chosen = append(chosen, l)
	}
	streams, err := s.infos(ctx, chosen)
	return reprise.ListPage{Streams: streams, Next: next}, err
}

// lives returns the newest life of each stream in the order of lists.
func (s *Store) lives(ctx context.Context, tenant reprise.Tenant, anew bool) ([]life, error) {
	s.listing.mu.Lock()
	defer s.listing.mu.Unlock()
	if !anew && s.listing.known && s.listing.tenant == tenant {
		return s.listing.lives, nil
	}
	prefix := ""
	if tenant != "" {
		prefix = tenantFolder(tenant)
	}
	var lives []life
	for name, err := range s.place.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if l, ok := parseLife(name); ok {
			lives = append(lives, l)
		}
	}
	slices.SortFunc(lives, func(a, b life) int {
		return cmp.Or(strings.Compare(string(a.key.Tenant), string(b.key.Tenant)),
			strings.Compare(a.key.Name, b.key.Name), a.compare(b))
	})
	lives = slices.CompactFunc(lives, func(a, b life) bool { return a.key == b.key })
	slices.SortFunc(lives, life.compare)
	s.listing.tenant, s.listing.lives, s.listing.known = tenant, lives, true
	return lives, nil
}

// opensAtOnce is how many files a list opens at a time.
const opensAtOnce = 16

// infos reads the headers of files.
func (s *Store) infos(ctx context.Context, lives []life) ([]reprise.StreamInfo, error) {
	found := make([]*reprise.StreamInfo, len(lives))
	errs := make([]error, len(lives))
	var group sync.WaitGroup
	turn := make(chan struct{}, opensAtOnce)
	for i, l := range lives {
		turn <- struct{}{}
		group.Go(func() {
			defer func() { <-turn }()
			found[i], errs[i] = s.infoOf(ctx, l)
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var infos []reprise.StreamInfo
	for _, info := range found {
		if info != nil {
			infos = append(infos, *info)
		}
	}
	return infos, nil
}

// infoOf is what a list tells of a life, nil if it is there no more.
func (s *Store) infoOf(ctx context.Context, l life) (*reprise.StreamInfo, error) {
	f, err := s.openLife(ctx, l)
	switch {
	case errors.Is(err, reprise.ErrNotFound):
		return nil, nil
	case errors.Is(err, ErrDamaged):
		return &reprise.StreamInfo{Key: l.key, Epoch: l.epoch, Created: time.UnixMilli(l.created).UTC(), Earliest: 1},
			nil
	case err != nil:
		return nil, err
	}
	info := f.info
	info.Producers = nil
	return &info, f.close()
}
