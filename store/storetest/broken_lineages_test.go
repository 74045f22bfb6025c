package storetest

import (
	"context"
	"errors"

	"reprise"
)

var brokenLineages = []brokenStore{
	{"create forgets the lineage", "create/copied lineage", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			info.Lineage = nil
			return b.session.Create(ctx, info)
		}
	}},
	{"create keeps one ancestor", "create/copied lineage", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			info.Lineage = info.Lineage[max(0, len(info.Lineage)-1):]
			return b.session.Create(ctx, info)
		}
	}},
	{"list shows no lineage", "create/copied lineage", func(b *broken) {
		b.list = func(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
			page, err := b.session.List(ctx, q)
			for i := range page.Streams {
				page.Streams[i].Lineage = nil
			}
			return page, err
		}
	}},
	{"the lineage is in memory alone", "create/copied lineage, opened again", func(b *broken) {
		mine := map[reprise.StreamKey]bool{}
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			mine[info.Key] = true
			return b.session.Create(ctx, info)
		}
		altersRead(b, func(info *reprise.StreamInfo) {
			if !mine[info.Key] {
				info.Lineage = nil
			}
		})
	}},
	{"the epoch changes with the first append after a loss", "loss/found by Read", func(b *broken) {
		altersRead(b, hideLoss)
	}},
	{"create answers with the epoch before a loss", "loss/found by Create", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			info, err := b.session.Create(ctx, info)
			hideLoss(&info)
			return info, err
		}
	}},
	{"append takes what was meant for the epoch before", "loss/found by Append", takesOldEpochs},
	{"append compares the tail before the epoch", "loss/found by an Append after the lost events", func(b *broken) {
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			errs := b.session.Append(ctx, reqs)
			for i := range errs {
				page, err := b.session.Read(ctx, reqs[i].Key, 0, 0)
				if errors.Is(errs[i], reprise.ErrNotFound) && err == nil && page.Info.Tail+1 != reqs[i].First {
					errs[i] = reprise.ErrConflict
				}
			}
			return errs
		}
	}},
	{"the fork is the tail that was lost", "loss/found by Read", func(b *broken) {
		altersLineage(b, func(lineage []reprise.Ancestor) []reprise.Ancestor {
			lineage[len(lineage)-1].Fork++
			return lineage
		})
	}},
	{"a loss leaves no lineage", "loss/found by Read", func(b *broken) {
		altersLineage(b, func([]reprise.Ancestor) []reprise.Ancestor { return nil })
	}},
	{"the last loss alone is remembered", "loss/several", func(b *broken) {
		altersLineage(b, func(lineage []reprise.Ancestor) []reprise.Ancestor { return lineage[len(lineage)-1:] })
	}},
	{"the lineage has no bound", "loss/bound", func(b *broken) {
		renewed := false
		altersLineage(b, func(lineage []reprise.Ancestor) []reprise.Ancestor {
			if renewed = renewed || lineage[len(lineage)-1].Fork == 44; renewed {
				return append([]reprise.Ancestor{{Epoch: "OLDEST"}}, lineage...)
			}
			return lineage
		})
	}},
	{"a loss takes the owner", "loss/owner and producers", func(b *broken) {
		altersRead(b, func(info *reprise.StreamInfo) {
			if len(info.Lineage) > 0 {
				info.Owner = reprise.Owner{}
			}
		})
	}},
	{"a loss takes the producers", "loss/owner and producers", func(b *broken) {
		altersRead(b, func(info *reprise.StreamInfo) {
			if len(info.Lineage) > 0 {
				info.Producers = nil
			}
		})
	}},
	{"streams that have lost nothing are stuck in the epoch before", "loss/others", func(b *broken) {
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			page, _ := b.session.Read(ctx, key("a"), 0, 0)
			if len(page.Info.Lineage) > 0 && reqs[0].Key != key("a") {
				return []error{reprise.ErrNotFound}
			}
			return b.session.Append(ctx, reqs)
		}
	}},
}

// altersRead changes what Read says of streams.
func altersRead(b *broken, change func(*reprise.StreamInfo)) {
	b.read = func(ctx context.Context, k reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
		page, err := b.session.Read(ctx, k, after, maxBytes)
		change(&page.Info)
		return page, err
	}
}

// altersLineage changes the lineages of streams that have one.
func altersLineage(b *broken, change func([]reprise.Ancestor) []reprise.Ancestor) {
	altersRead(b, func(info *reprise.StreamInfo) {
		if len(info.Lineage) > 0 {
			info.Lineage = change(append([]reprise.Ancestor(nil), info.Lineage...))
		}
	})
}

// hideLoss shows a stream that was not appended to since a loss as it was in the epoch before.
func hideLoss(info *reprise.StreamInfo) {
	if n := len(info.Lineage); n > 0 && info.Lineage[n-1].Fork == info.Tail {
		info.Epoch, info.Lineage = info.Lineage[n-1].Epoch, info.Lineage[:n-1]
	}
}

// takesOldEpochs has appends that were meant for an ancestor go into the current epoch.
func takesOldEpochs(b *broken) {
	b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
		reqs = append([]reprise.AppendRequest(nil), reqs...)
		for i := range reqs {
			page, _ := b.session.Read(ctx, reqs[i].Key, 0, 0)
			if _, ok := page.Info.ForkOf(reqs[i].Epoch); ok {
				reqs[i].Epoch = page.Info.Epoch
			}
		}
		return b.session.Append(ctx, reqs)
	}
}
