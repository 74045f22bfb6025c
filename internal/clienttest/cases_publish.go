package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"reprise"
	"reprise/client"
	"reprise/internal/cutproxy"
)

// publishOnce publishes over a network that loses responses, one event after the other and by several tasks of one
// producer. Each event must be stored once, and those of a task in order.
func publishOnce(ctx context.Context, r *run) error {
	for _, atOnce := range []int{1, 8} {
		if err := r.publishOnce(ctx, fmt.Sprintf("%s-%d", r.name, atOnce), atOnce); err != nil {
			return fmt.Errorf("%d at a time: %w", atOnce, err)
		}
	}
	return nil
}

func (r *run) publishOnce(ctx context.Context, stream string, atOnce int) error {
	c, err := r.server.client()
	if err != nil {
		return err
	}
	if _, err := c.CreateStream(ctx, stream, client.StreamConfig{}); err != nil {
		return err
	}
	p, closeIt, err := r.proxy(r.server.addr, func(n int) *cutproxy.Fault {
		if n >= 20 {
			return nil
		}
		return &cutproxy.Fault{Kind: cutproxy.RST, After: int64(n * 97 % 400)}
	})
	if err != nil {
		return err
	}
	defer closeIt()
	const count = 100
	t := r.service.do(Command{
		Do: "publish", URL: "http://" + p.Addr(), Token: r.server.token, Stream: stream, Count: count, AtOnce: atOnce,
		MinWaitMS: 1, MaxWaitMS: 5,
	})
	if err := t.wait(); err != nil {
		return err
	}
	if len(t.errs) > 0 {
		return t.errs[0]
	}
	got, err := r.server.events(ctx, stream)
	if err != nil && !errors.Is(err, reprise.ErrEnded) {
		return err
	}
	var numbers []int
	last := make([]int, atOnce) // number of each task
	for _, e := range got {
		var data struct{ N int }
		_ = json.Unmarshal(e.JSON, &data) // an error leaves 0
		if task := data.N % atOnce; data.N > last[task] {
			last[task] = data.N
			numbers = append(numbers, data.N)
		}
	}
	if len(got) != count || len(numbers) != count {
		return fmt.Errorf("the stream holds %d events of %d, of which %d are the next ones of their task: %v",
			len(got), count, len(numbers), slices.Sorted(slices.Values(numbers)))
	}
	return nil
}
