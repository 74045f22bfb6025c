// Package listing has what lists of streams share: an index for stores that list from memory (Index), and pages of
// those streams of a Log that match (Part).
package listing

import (
	"fmt"
	"strconv"

	"reprise"
)

// Index knows the streams of a store by number, in the order of their creation, for each choice that a
// reprise.ListQuery can make. The zero value is empty. It is not safe for concurrent use.
type Index struct {
	orders map[scope]*order
	newest added
}

// added are the orders that the newest stream is in.
type added struct {
	tenant    reprise.Tenant
	namespace string
	orders    [4]*order // nil if there are none
}

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

// Add adds a stream, whose number is higher than that of each before. The cost is O(1).
func (x *Index) Add(key reprise.StreamKey, number uint64) {
	if x.orders == nil {
		x.orders = map[scope]*order{}
	}
	to, namespace := &x.newest, key.Namespace()
	if to.orders[0] == nil || to.tenant != key.Tenant || to.namespace != namespace {
		*to = added{tenant: key.Tenant, namespace: namespace}
		for i, in := range scopes(key) {
			if x.orders[in] == nil {
				x.orders[in] = &order{}
			}
			to.orders[i] = x.orders[in]
		}
	}
	for _, o := range to.orders {
		o.add(number)
	}
}

// Remove takes out a stream, which is there. The cost is O(log n).
func (x *Index) Remove(key reprise.StreamKey, number uint64) {
	for _, in := range scopes(key) {
		o := x.orders[in]
		o.remove(number)
		if o.empty() {
			delete(x.orders, in)
			x.newest = added{}
		}
	}
}

// maxLooked bounds the streams that a page looks at, since the caller holds a lock.
const maxLooked = 10_000

// Page returns the numbers of the streams of a page, the newest first, and reprise.ListPage.Next. newest is the highest
// number that a stream ever had; takes is called for q.Open and q.Labels, which decide as reprise.ListQuery.Takes. The
// error wraps reprise.ErrInvalid if no page has given q.After. The cost is O(log n), and O(1) for each stream of the
// page and each that is left out.
func (x *Index) Page(q reprise.ListQuery, newest uint64, takes func(number uint64) bool) (
	numbers []uint64, next string, err error,
) {
	below := newest + 1
	if q.After != "" {
		n, err := strconv.ParseUint(q.After, 10, 64)
		if err != nil || n == 0 || n > newest || strconv.FormatUint(n, 10) != q.After {
			return nil, "", fmt.Errorf("%w: %q is not a list cursor", reprise.ErrInvalid, q.After)
		}
		below = n
	}
	in := scope{tenant: q.Tenant, namespace: q.Namespace, allNamespaces: q.AllNamespaces}
	if q.AllNamespaces {
		in.namespace = ""
	}
	o := x.orders[in]
	if o == nil {
		return nil, "", nil
	}
	all, looked := !q.Open && len(q.Labels) == 0, 0
	for number := range o.before(below) {
		if looked++; !all && !takes(number) {
			if looked >= maxLooked {
				return numbers, strconv.FormatUint(number, 10), nil
			}
			continue
		}
		if len(numbers) == q.Limit {
			return numbers, strconv.FormatUint(numbers[len(numbers)-1], 10), nil
		}
		numbers = append(numbers, number)
	}
	return numbers, "", nil
}
