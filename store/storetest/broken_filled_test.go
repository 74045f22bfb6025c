package storetest

import (
	"context"
	"runtime"

	"reprise"
)

// brokenFilled are Stores that break the rules of CreateAppend.
var brokenFilled = []brokenStore{
	{"the batch of a new stream is forgotten", "create with a batch/kept", func(b *broken) {
		b.fill = func(ctx context.Context, info reprise.StreamInfo, first reprise.AppendRequest) (
			reprise.StreamInfo, error,
		) {
			return b.session.Create(ctx, info)
		}
	}},
	{"the end of a new stream is forgotten", "create with a batch/kept", func(b *broken) {
		b.fill = func(ctx context.Context, info reprise.StreamInfo, first reprise.AppendRequest) (
			reprise.StreamInfo, error,
		) {
			first.End = nil
			return b.session.CreateAppend(ctx, info, first)
		}
	}},
	{"a stream is made, and its batch is appended later", "create with a batch/seen whole", inTwoSteps},
	{"a stream is made without its batch in a crash", "create with a batch/crash", inTwoSteps},
	{"a batch is appended to a stream that exists", "create with a batch/existing", func(b *broken) {
		b.fill = func(ctx context.Context, info reprise.StreamInfo, first reprise.AppendRequest) (
			reprise.StreamInfo, error,
		) {
			kept, err := b.session.CreateAppend(ctx, info, first)
			if err == nil && kept.Epoch != info.Epoch && kept.End == nil {
				first.Epoch, first.First, first.Owner = kept.Epoch, kept.Tail+1, kept.Owner
				b.session.Append(ctx, []reprise.AppendRequest{first})
			}
			return kept, err
		}
	}},
}

// inTwoSteps makes a stream, and appends its batch a moment later.
func inTwoSteps(b *broken) {
	b.fill = func(ctx context.Context, info reprise.StreamInfo, first reprise.AppendRequest) (
		reprise.StreamInfo, error,
	) {
		kept, err := b.session.Create(ctx, info)
		if err != nil || kept.Epoch != info.Epoch {
			return kept, err
		}
		for range 100 {
			runtime.Gosched()
		}
		if errs := b.session.Append(ctx, []reprise.AppendRequest{first}); errs != nil {
			return kept, errs[0]
		}
		kept.Tail, kept.Bytes, kept.End = uint64(first.Count), first.Kept, first.End
		return kept, nil
	}
}
