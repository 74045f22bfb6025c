package execution

import (
	"context"
	"errors"

	"reprise"
)

// recover ends the executions that have no end: they were run by a process that has died.
// What still runs of them is killed first.
func (h *Host) recover(ctx context.Context) error {
	left, err := h.left(ctx)
	if err != nil {
		return err
	}
	marks := make([]string, len(left))
	for i := range left {
		marks[i] = markOf(left[i].Epoch)
	}
	killMarked(marks)
	for i := range left {
		err := h.lose(ctx, &left[i])
		if err != nil && !errors.Is(err, reprise.ErrNotFound) && !errors.Is(err, reprise.ErrExpired) && !errors.Is(err, reprise.ErrEnded) {
			return err
		}
	}
	return nil
}

// left are the streams of all tenants' executions that have no end.
func (h *Host) left(ctx context.Context) ([]reprise.StreamInfo, error) {
	var left []reprise.StreamInfo
	query := reprise.ListQuery{Namespace: namespace, Limit: maxLimit}
	for {
		page, err := h.log.List(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, info := range page.Streams {
			if info.End == nil {
				left = append(left, info)
			}
		}
		if query.After = page.Next; query.After == "" {
			return left, nil
		}
	}
}

// lose ends an execution as lost, with what the kept events tell of it.
func (h *Host) lose(ctx context.Context, info *reprise.StreamInfo) error {
	s, err := h.log.Stream(ctx, info.Key)
	if err != nil {
		return err
	}
	t, err := count(ctx, s, info.Tail)
	if err != nil {
		return err
	}
	e := ending{
		Outcome: Lost, Bytes: t.bytes,
		Error: "the server died while the command ran",
	}
	if t.from > 1 {
		e.BytesFrom = t.from
	}
	switch {
	case info.Tail == 0:
		e.Error = "the server died before the command was started"
	case !t.started.IsZero():
		e.Started = ms(t.started)
		e.DurationMS = t.last.Sub(t.started).Milliseconds()
	}
	_, err = s.End(ctx, string(Lost), reprise.Event{Format: reprise.FormatMembers, Data: mustMarshal(e)})
	return err
}
