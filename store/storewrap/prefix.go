package storewrap

import (
	"context"
	"fmt"
	"strings"
	"time"

	"reprise"
	"reprise/internal/wrap"
)

// prefixed is a part of a Store, with tenants of its own. It is safe for concurrent use.
type prefixed struct {
	wrap.Around
	prefix string
}

// maxPrefix is the maximum length of a prefix in bytes.
const maxPrefix = 32

// Prefix stores streams in tenants of inner that begin with the prefix and a dot: with the prefix "ci" the tenant
// "default" is "ci.default" inside. Several Logs can so share one Store, and none sees the streams of another. A prefix
// is 1 to 32 letters, digits, '_' and '-'. It has no dot, so that two prefixes cannot yield the same tenant.
//
// Tenants inside are up to 33 bytes longer than the 64 that a Log permits.
//
// Listing all tenants reads past the streams of others. So does Sweep, which lists and removes streams, because
// inner.Sweep would remove streams of others without their knowledge. While Sweep runs, the stream "sweep" in the
// tenant "ci." inside keeps other replicas from sweeping. If it is older than a minute, its replica has crashed.
// Meanwhile a Sweep of theirs returns no streams. If a sweep takes more than a minute, two replicas may return the same
// streams. Expired marks of swept streams are deleted only by a sweep of inner, by a Log or program that uses all of
// it.
//
// The error wraps reprise.ErrInvalid if the prefix has other characters or another length.
func Prefix(inner reprise.Store, prefix string) (reprise.Store, error) {
	key := reprise.StreamKey{Tenant: reprise.Tenant(prefix), Name: "x"}
	if len(prefix) > maxPrefix || strings.Contains(prefix, ".") || key.Validate() != nil {
		return nil, fmt.Errorf("%w: %q is not a prefix: 1 to %d letters, digits, '_' and '-'",
			reprise.ErrInvalid, prefix, maxPrefix)
	}
	return &prefixed{Around: wrap.Around{Inner: inner}, prefix: prefix + "."}, nil
}

// Part returns the prefix. A part has its own marker of wrappers; see Check.
func (p *prefixed) Part() string { return p.prefix }

// inside returns the key in the wrapped Store.
func (p *prefixed) inside(key reprise.StreamKey) reprise.StreamKey {
	key.Tenant = reprise.Tenant(p.prefix) + key.Tenant
	return key
}

// outside is the inverse of inside. It returns false for the key of another part and for the lock.
func (p *prefixed) outside(key reprise.StreamKey) (reprise.StreamKey, bool) {
	tenant, ok := strings.CutPrefix(string(key.Tenant), p.prefix)
	key.Tenant = reprise.Tenant(tenant)
	return key, ok && tenant != ""
}

// Create creates a stream; see reprise.Store.
func (p *prefixed) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	key := info.Key
	info.Key = p.inside(key)
	kept, err := p.Inner.Create(ctx, info)
	kept.Key = key
	return kept, err
}

// CreateAppend creates a stream with its first batch; see reprise.CreateAppender.
func (p *prefixed) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	key := info.Key
	info.Key, first.Key = p.inside(key), p.inside(key)
	kept, err := p.Around.CreateAppend(ctx, info, first)
	kept.Key = key
	return kept, err
}

// Append stores batches; see reprise.Store.
func (p *prefixed) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	inside := make([]reprise.AppendRequest, len(reqs))
	copy(inside, reqs)
	for i := range inside {
		inside[i].Key = p.inside(inside[i].Key)
	}
	return p.Inner.Append(ctx, inside)
}

// Read returns a page; see reprise.Store.
func (p *prefixed) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := p.Inner.Read(ctx, p.inside(key), after, maxBytes)
	page.Info.Key = key
	return page, err
}

// List returns streams; see reprise.Store. Without a tenant, a page may have fewer streams than the limit.
func (p *prefixed) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	if q.Tenant != "" {
		q.Tenant = reprise.Tenant(p.prefix) + q.Tenant
	}
	for {
		page, err := p.Inner.List(ctx, q)
		if err != nil {
			return reprise.ListPage{}, err
		}
		var mine []reprise.StreamInfo
		for _, info := range page.Streams {
			if key, ok := p.outside(info.Key); ok {
				info.Key = key
				mine = append(mine, info)
			}
		}
		page.Streams = mine
		if len(mine) > 0 || page.Next == "" {
			return page, nil
		}
		q.After = page.Next
	}
}

// Remove trims or removes a stream; see reprise.Store.
func (p *prefixed) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	return p.Inner.Remove(ctx, p.inside(key), spec)
}

// Watch watches a stream; see reprise.Watcher.
func (p *prefixed) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	return p.Around.Watch(p.inside(key), moved)
}

const (
	// sweepPage is the number of streams that Sweep lists at a time.
	sweepPage = 1000
	// sweepLasts is the longest time for which a replica may sweep.
	sweepLasts = time.Minute
)

// Sweep removes expired streams of this part; see reprise.Sweeper. It returns no streams while another replica sweeps.
// If a sweep takes more than a minute, two replicas may return the same streams.
func (p *prefixed) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	unlock, err := p.lockSweep(ctx)
	if err != nil || unlock == nil {
		return nil, err
	}
	defer unlock()
	due, err := p.due(ctx, now, limit)
	if err != nil {
		return nil, err
	}
	for i := range due {
		spec := reprise.RemoveSpec{Remember: remember, Epoch: due[i].Epoch}
		if err := p.Remove(ctx, due[i].Key, spec); err != nil {
			return due[:i], err
		}
	}
	return due, nil
}

// due returns up to limit streams that have expired.
func (p *prefixed) due(ctx context.Context, now time.Time, limit int) ([]reprise.StreamInfo, error) {
	var due []reprise.StreamInfo
	for q := (reprise.ListQuery{AllNamespaces: true, Limit: sweepPage}); len(due) < limit; {
		page, err := p.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, info := range page.Streams {
			if info.End != nil && !info.End.Expires.After(now) && len(due) < limit {
				due = append(due, info)
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	return due, nil
}

// lockSweep creates the stream that serves as lock: of concurrent creations one succeeds. unlock is nil if another
// replica holds the lock.
func (p *prefixed) lockSweep(ctx context.Context) (unlock func(), err error) {
	mine := reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: reprise.Tenant(p.prefix), Name: "sweep"}, Epoch: reprise.NewEpoch(),
		Created: time.Now(),
	}
	for range 2 {
		kept, err := p.Inner.Create(ctx, mine)
		switch {
		case err != nil:
			return nil, err
		case kept.Epoch == mine.Epoch:
			return func() {
				// If this fails, the lock is ignored once it is old.
				_ = p.Inner.Remove(context.WithoutCancel(ctx), mine.Key, reprise.RemoveSpec{Epoch: mine.Epoch})
			}, nil
		case time.Since(kept.Created) < sweepLasts:
			return nil, nil
		}
		if err := p.Inner.Remove(ctx, mine.Key, reprise.RemoveSpec{Epoch: kept.Epoch}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Sizes returns the size of each tenant of this part; see reprise.Sizer.
func (p *prefixed) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	all, err := p.Around.Sizes(ctx)
	if err != nil {
		return nil, err
	}
	sizes := map[reprise.Tenant]reprise.Size{}
	for tenant, size := range all {
		if key, ok := p.outside(reprise.StreamKey{Tenant: tenant}); ok {
			sizes[key.Tenant] = size
		}
	}
	return sizes, nil
}
