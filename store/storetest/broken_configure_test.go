package storetest

import (
	"context"

	"reprise"
)

// brokenConfigured are Stores that break the rules for changes of a configuration.
var brokenConfigured = []brokenStore{
	{"append minds no revision", "configure/append refused", minding},
	{"append minds no revision of another replica", "configure/shared", minding},
	{"a change minds no revision", "configure/refused", func(b *broken) {
		b.create = changing(b, func(want, have *reprise.StreamInfo) { want.Revision = have.Revision + 1 })
	}},
	{"a change looks first and changes then", "configure/contested", func(b *broken) {
		b.create = changing(b, func(want, have *reprise.StreamInfo) {
			if have.Revision+1 == want.Revision || have.Revision == want.Revision {
				want.Revision = have.Revision + 1
			}
		})
	}},
	{"a change forgets when the stream expires", "configure/ended", func(b *broken) {
		b.create = changing(b, func(want, have *reprise.StreamInfo) { want.End = have.End })
	}},
	{"a change forgets when the stream is to be swept", "configure/swept", func(b *broken) {
		b.create = changing(b, func(want, have *reprise.StreamInfo) { want.End = have.End })
	}},
	{"a change forgets the labels", "configure/changed", func(b *broken) {
		b.create = changing(b, func(want, have *reprise.StreamInfo) { want.Config.Labels = nil })
	}},
	{"a change makes what is not there", "configure/refused", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			if _, err := b.session.Read(ctx, info.Key, 0, 0); err != nil {
				info.Revision = 0
			}
			return b.session.Create(ctx, info)
		}
	}},
}

func minding(b *broken) {
	b.append = eachAlone(b, func(ctx context.Context, req *reprise.AppendRequest) {
		page, _ := b.session.Read(ctx, req.Key, 0, 0)
		req.Revision = page.Info.Revision
	})
}

// changing makes a Create that edits changes of a configuration.
func changing(b *broken, edit func(want, have *reprise.StreamInfo)) func(context.Context, reprise.StreamInfo) (
	reprise.StreamInfo, error,
) {
	return func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
		if page, err := b.session.Read(ctx, info.Key, 0, 0); info.Revision > 0 && err == nil {
			edit(&info, &page.Info)
		}
		return b.session.Create(ctx, info)
	}
}
