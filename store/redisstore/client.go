package redisstore

import (
	"context"
	"errors"
	"net"

	"github.com/redis/rueidis"
)

// pinnedClient is a rueidis.Client that works around two habits of it.
//
// A command is used again for another one as soon as its answer is there, although the goroutine that writes to a
// connection that is being lost may still read it: commands are pinned, which leaves them to the garbage collector.
//
// A connection that is missing is dialled within the context of the call that needs it first. If that is cancelled,
// calls that wait for the same connection fail too: they are made again, since nothing of them was sent.
type pinnedClient struct{ rueidis.Client }

// dialTries bounds how often a call is made again whose connection was dialled for another one that was cancelled.
const dialTries = 5

// Do implements rueidis.Client.
func (c pinnedClient) Do(ctx context.Context, command rueidis.Completed) (result rueidis.RedisResult) {
	command = command.Pin()
	for range dialTries {
		if result = c.Client.Do(ctx, command); !dialledForAnother(ctx, result.NonRedisError()) {
			break
		}
	}
	return result
}

// DoMulti implements rueidis.Client.
func (c pinnedClient) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	for i := range commands {
		commands[i] = commands[i].Pin()
	}
	results := c.Client.DoMulti(ctx, commands...)
	for range dialTries {
		var places []int
		var again []rueidis.Completed
		for i := range results {
			if dialledForAnother(ctx, results[i].NonRedisError()) {
				places, again = append(places, i), append(again, commands[i])
			}
		}
		if len(again) == 0 {
			break
		}
		for i, result := range c.Client.DoMulti(ctx, again...) {
			results[places[i]] = result
		}
	}
	return results
}

// dialledForAnother reports whether err is of a connection that was dialled within another call's context, which was
// cancelled.
func dialledForAnother(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
		return false
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}
