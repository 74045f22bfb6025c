package logstore

import (
	"iter"
	"slices"

	"reprise"
)

// scope is a choice of streams that can be listed: see the fields of reprise.ListQuery.
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

// order is the ids of streams, ascending, which is the order of their creation. A removed one stays in ids until it
// is more than half of them that have gone.
type order struct {
	ids  []uint64
	gone map[uint64]struct{}
}

func (o *order) add(id uint64) { o.ids = append(o.ids, id) }

func (o *order) empty() bool { return len(o.ids) == len(o.gone) }

func (o *order) remove(id uint64) {
	if n := len(o.ids); n > 0 && o.ids[n-1] == id { // the newest, which needs no search
		o.ids = o.ids[:n-1]
		return
	}
	if o.gone == nil {
		o.gone = map[uint64]struct{}{}
	}
	o.gone[id] = struct{}{}
	if len(o.gone) <= len(o.ids)/2 {
		return
	}
	o.ids = slices.DeleteFunc(o.ids, func(id uint64) bool { _, gone := o.gone[id]; return gone })
	o.gone = nil
}

// before yields the ids below id, the newest first.
func (o *order) before(id uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		i, _ := slices.BinarySearch(o.ids, id)
		for _, id := range slices.Backward(o.ids[:i]) {
			if _, gone := o.gone[id]; !gone && !yield(id) {
				return
			}
		}
	}
}
