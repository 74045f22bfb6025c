package storetest

import (
	"context"
	"errors"
	"runtime"

	"reprise"
)

// brokenOwners break what is said of owners, and of streams that are copied.
var brokenOwners = []brokenStore{
	{"create forgets the owner", "owners/kept", func(b *broken) {
		b.create = creating(b, func(info *reprise.StreamInfo) { info.Owner = reprise.Owner{} })
	}},
	{"create gives the stream to the next who asks", "owners/kept", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			got, err := b.session.Create(ctx, info)
			got.Owner = info.Owner
			return got, err
		}
	}},
	{"append minds no owner", "owners/refused", func(b *broken) {
		b.append = asOwner(b, func(_, kept reprise.Owner) bool { return kept != reprise.Owner{} })
	}},
	{"append minds the fence alone", "owners/refused", func(b *broken) {
		b.append = asOwner(b, func(asked, kept reprise.Owner) bool { return asked.Fence == kept.Fence })
	}},
	{"append minds the name alone", "owners/refused", func(b *broken) {
		b.append = asOwner(b, func(asked, kept reprise.Owner) bool { return asked.Name == kept.Name })
	}},
	{"append lets nobody take over", "owners/taken over", func(b *broken) {
		b.append = eachAlone(b, func(ctx context.Context, req *reprise.AppendRequest) {
			if kept := ownerOf(ctx, b, req.Key); req.Owner.Fence > kept.Fence {
				req.Owner.Fence = 0
			}
		})
	}},
	{"append leaves the stream to the old owner", "owners/taken over", func(b *broken) {
		b.append = asOwner(b, func(asked, kept reprise.Owner) bool { return asked.Fence > kept.Fence })
	}},
	{"the end is seen before the owner", "owners/order", func(b *broken) {
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			if page, err := b.session.Read(ctx, reqs[0].Key, 0, 0); err == nil && page.Info.End != nil {
				return []error{reprise.ErrEnded}
			}
			return b.session.Append(ctx, reqs)
		}
	}},
	{"a refused request takes the stream over", "owners/order", func(b *broken) {
		taken := map[reprise.StreamKey]reprise.Owner{}
		b.append = eachAlone(b, func(ctx context.Context, req *reprise.AppendRequest) {
			if req.Owner.Fence > ownerOf(ctx, b, req.Key).Fence {
				taken[req.Key] = req.Owner
			}
		})
		b.read = edited(b, func(page *reprise.Page, _ uint64) {
			if o, ok := taken[page.Info.Key]; ok {
				page.Info.Owner = o
			}
		})
	}},
	{"append looks at the owner first and appends then", "owners/contested", takeOverTwice},
	{"the owner is forgotten with the process", "owners/reopened", forgetOwners},
	{"the owner is forgotten in a crash", "owners/crashed", forgetOwners},
	{"one who is fenced off fences off all", "owners/among others", func(b *broken) {
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			errs := b.session.Append(ctx, reqs)
			for _, err := range errs {
				if errors.Is(err, reprise.ErrFenced) {
					for i := range errs {
						errs[i] = err
					}
				}
			}
			return errs
		}
	}},
	{"a copied stream begins anew", "create/copied", func(b *broken) {
		b.create = creating(b, func(info *reprise.StreamInfo) { info.Tail = 0 })
	}},
	{"a copied stream has no end", "create/copied after its end", func(b *broken) {
		b.create = creating(b, func(info *reprise.StreamInfo) { info.End = nil })
	}},
	{"a copied stream has no producers", "create/copied producers", func(b *broken) {
		b.create = creating(b, func(info *reprise.StreamInfo) { info.Producers = nil })
	}},
	{"streams that were copied are not swept", "sweep/copied", func(b *broken) {
		b.create = creating(b, func(info *reprise.StreamInfo) {
			if info.End != nil {
				end := *info.End
				end.Expires = end.Expires.AddDate(1, 0, 0)
				info.End = &end
			}
		})
	}},
	{"events count that were copied elsewhere", "sizes/copied", func(b *broken) {
		b.sizes = func(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
			page, err := b.session.List(ctx, everything)
			sizes := map[reprise.Tenant]reprise.Size{}
			for _, info := range page.Streams {
				size := sizes[info.Key.Tenant]
				sizes[info.Key.Tenant] = reprise.Size{
					Streams: size.Streams + 1, Events: size.Events + int64(info.Tail), Bytes: size.Bytes + info.Bytes,
				}
			}
			return sizes, err
		}
	}},
}

// creating makes streams changed by edit.
func creating(
	b *broken, edit func(*reprise.StreamInfo),
) func(context.Context, reprise.StreamInfo) (reprise.StreamInfo, error) {
	return func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
		edit(&info)
		return b.session.Create(ctx, info)
	}
}

func ownerOf(ctx context.Context, b *broken, k reprise.StreamKey) reprise.Owner {
	page, _ := b.session.Read(ctx, k, 0, 0)
	return page.Info.Owner
}

// asOwner appends as the owner that is kept where let returns true for the one that asks.
func asOwner(
	b *broken, let func(asked, kept reprise.Owner) bool,
) func(context.Context, []reprise.AppendRequest) []error {
	return eachAlone(b, func(ctx context.Context, req *reprise.AppendRequest) {
		if kept := ownerOf(ctx, b, req.Key); let(req.Owner, kept) {
			req.Owner = kept
		}
	})
}

// takeOverTwice answers those well who have asked while another one took the stream over.
func takeOverTwice(b *broken) {
	b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
		if reqs[0].Owner.Fence <= ownerOf(ctx, b, reqs[0].Key).Fence {
			return b.session.Append(ctx, reqs)
		}
		runtime.Gosched()
		b.session.Append(ctx, reqs)
		return nil
	}
}

// forgetOwners knows nothing of the owners of streams that were there before.
func forgetOwners(b *broken) {
	page, _ := b.session.List(context.Background(), everything)
	before := map[reprise.StreamKey]bool{}
	for _, info := range page.Streams {
		before[info.Key] = true
	}
	b.read = edited(b, func(page *reprise.Page, _ uint64) {
		if before[page.Info.Key] {
			page.Info.Owner = reprise.Owner{}
		}
	})
}
