package memstore

import (
	"context"
	"fmt"
	"strconv"

	"reprise"
)

// scope is a choice of streams that can be listed: see the fields of
// reprise.ListQuery.
type scope struct {
	tenant        reprise.Tenant
	namespace     string
	allNamespaces bool
}

// scopes are those that a stream belongs to.
func scopes(key reprise.StreamKey) [4]scope {
	namespace := key.Namespace()
	return [...]scope{
		{tenant: key.Tenant, namespace: namespace},
		{tenant: key.Tenant, allNamespaces: true},
		{namespace: namespace},
		{allNamespaces: true},
	}
}

// List returns streams; see reprise.Store. The cost is O(log n) in the number of
// streams, and O(1) for each that is returned.
func (s *Store) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	if err := s.use(ctx); err != nil {
		return reprise.ListPage{}, err
	}
	defer s.mu.RUnlock()
	below := s.created + 1
	if q.After != "" {
		n, err := strconv.ParseUint(q.After, 10, 64)
		if err != nil || n == 0 || n > s.created || strconv.FormatUint(n, 10) != q.After {
			return reprise.ListPage{}, fmt.Errorf("%w: %q is no place in a list", reprise.ErrInvalid, q.After)
		}
		below = n
	}
	in := scope{tenant: q.Tenant, namespace: q.Namespace, allNamespaces: q.AllNamespaces}
	if q.AllNamespaces {
		in.namespace = ""
	}
	o := s.orders[in]
	if o == nil {
		return reprise.ListPage{}, nil
	}
	var page reprise.ListPage
	last := below
	for number := range o.before(below) {
		if len(page.Streams) == q.Limit {
			page.Next = strconv.FormatUint(last, 10)
			break
		}
		page.Streams = append(page.Streams, s.numbers[number].summary())
		last = number
	}
	return page, nil
}

// summary is the state of st without its producers.
func (st *stream) summary() reprise.StreamInfo {
	st.mu.Lock()
	defer st.mu.Unlock()
	info := st.info
	info.Producers = nil
	return info
}
