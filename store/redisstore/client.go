package redisstore

import (
	"context"
	"errors"
	"net"

	"github.com/redis/rueidis"
)

// pinnedClient is a rueidis.Client that works around two behaviors of it.
//
// rueidis recycles a command as soon as its answer has arrived, although the goroutine that writes to a failing
// connection may still read the command. pinnedClient pins each command, which leaves it to the garbage collector.
//
// rueidis dials a missing connection within the context of the first call that needs it. If that context is cancelled,
// other calls that wait for the same connection fail too. pinnedClient repeats those calls, because nothing of them was
// sent.
type pinnedClient struct{ rueidis.Client }

// dialTries bounds the attempts of a call that waits for a connection dialled within another call's context.
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

// dialledForAnother reports whether err is the failure of a connection that was dialled within another call's context,
// and that context was cancelled.
func dialledForAnother(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
		return false
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}
