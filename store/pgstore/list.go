package pgstore

import (
	"context"
	"fmt"
	"strconv"

	"reprise"
)

// List reads rows by descending id; see reprise.Store. Each kind of selection has its own index.
func (s *Store) List(ctx context.Context, q reprise.ListQuery) (_ reprise.ListPage, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return reprise.ListPage{}, err
	}
	defer s.use.Leave()
	before := int64(1<<63 - 1)
	if q.After != "" {
		var err error
		before, err = strconv.ParseInt(q.After, 10, 64)
		if err != nil || before < 1 || strconv.FormatInt(before, 10) != q.After {
			return reprise.ListPage{}, fmt.Errorf("%w: %.40q is not a list cursor", reprise.ErrInvalid, q.After)
		}
	}
	// Ask for one more than the limit, which shows whether there are more.
	p := new(params).int8(before).int8(int64(q.Limit) + 1)
	where := ""
	if q.Tenant != "" {
		p.text(string(q.Tenant))
		where += " AND s.tenant = $" + strconv.Itoa(len(p.values))
	}
	if !q.AllNamespaces {
		p.text(q.Namespace)
		where += " AND s.namespace = $" + strconv.Itoa(len(p.values))
	}
	statement := s.opts.in(`SELECT s, {schema}.lineage_of(s.id) FROM {schema}.streams s WHERE s.id < $1`) + where +
		` ORDER BY s.id DESC LIMIT $2`
	var page reprise.ListPage
	err = s.run(ctx, statement, p, func() takeRow {
		page = reprise.ListPage{}
		last := before
		return func(row [][]byte) error {
			id, info, err := streamWithLineage(row[0], row[1])
			if len(page.Streams) == q.Limit {
				page.Next = strconv.FormatInt(last, 10)
				return err
			}
			page.Streams = append(page.Streams, info)
			last = id
			return err
		}
	})
	if err != nil {
		return reprise.ListPage{}, err
	}
	return page, nil
}
