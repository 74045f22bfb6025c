package redisstore

import (
	"cmp"
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/redis/rueidis"
)

var (
	//go:embed base.lua
	baseText string
	//go:embed append.lua
	appendText string
	//go:embed adopt.lua
	adoptText string
	//go:embed create.lua
	createText string
	//go:embed read.lua
	readText string
	//go:embed remove.lua
	removeText string
	//go:embed list.lua
	listText string
	//go:embed configure.lua
	configureText string
	//go:embed delist.lua
	delistText string
	//go:embed relist.lua
	relistText string
	//go:embed renumber.lua
	renumberText string
)

// The server refuses a script without flags, before it has any effect, if memory, disk or replicas for writes are
// lacking. Scripts that free memory are always admitted.
var (
	appendScript = newScript("#!lua", appendText)
	adoptScript  = newScript("#!lua flags=allow-oom", adoptText)
	createScript = newScript("#!lua", createText)
	removeScript = newScript("#!lua flags=allow-oom", removeText)
	listScript   = newScript("#!lua", listText)

	configureScript = newScript("#!lua", configureText)

	readScript = newScript("#!lua flags=no-writes", readText)

	delistScript   = newScript("#!lua flags=allow-oom", delistText)
	relistScript   = newScript("#!lua flags=allow-oom", relistText)
	renumberScript = newScript("#!lua flags=allow-oom", renumberText)
)

// script is a Lua script that the server caches under its SHA-1.
type script struct {
	text, sha string
	reads     bool // does not write
}

func newScript(head, text string) *script {
	whole := head + "\n" + baseText + text
	sum := sha1.Sum([]byte(whole)) // the name that Redis gives to a script
	return &script{text: whole, sha: hex.EncodeToString(sum[:]), reads: text == readText}
}

// call is the input of one run of a script.
type call struct{ keys, args []string }

func (sc *script) command(client rueidis.Client, c call, whole bool) rueidis.Completed {
	n := int64(len(c.keys))
	b := client.B()
	switch {
	case sc.reads && whole:
		return b.EvalRo().Script(sc.text).Numkeys(n).Key(c.keys...).Arg(c.args...).Build()
	case sc.reads:
		return b.EvalshaRo().Sha1(sc.sha).Numkeys(n).Key(c.keys...).Arg(c.args...).Build()
	case whole:
		return b.Eval().Script(sc.text).Numkeys(n).Key(c.keys...).Arg(c.args...).Build()
	}
	return b.Evalsha().Sha1(sc.sha).Numkeys(n).Key(c.keys...).Arg(c.args...).Build()
}

// errFewReplicas means that fewer than Options.Wait replicas have the data that was written or read.
var errFewReplicas = errors.New("too few replicas have it by now")

// run runs a script once for each of calls, in one round trip. It sends the text of the script if the server does not
// have it, as after a restart. If wait is not 0, the answers count only once that many replicas have the data on which
// they rely.
func (s *Store) run(ctx context.Context, sc *script, wait int, calls ...call) []rueidis.RedisResult {
	results := s.send(ctx, sc, wait, false, calls)
	var again []call
	var at []int
	for i, r := range results {
		if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
			again, at = append(again, calls[i]), append(at, i)
		}
	}
	if len(again) > 0 {
		for i, r := range s.send(ctx, sc, wait, true, again) {
			results[at[i]] = r
		}
	}
	return results
}

func (s *Store) send(ctx context.Context, sc *script, wait int, whole bool, calls []call) []rueidis.RedisResult {
	commands := make([]rueidis.Completed, 0, len(calls)+1)
	for _, c := range calls {
		commands = append(commands, sc.command(s.client, c, whole))
	}
	if wait == 0 {
		return s.client.DoMulti(ctx, commands...)
	}
	// For each connection, the server remembers what was last written when it answered, even to a read. Valkey
	// remembers only what the connection has written, and a notification counts.
	if s.valkey {
		commands = append(commands, s.client.B().Arbitrary(s.publish).Args(s.keys.index("wait"), "").Build())
	}
	commands = append(commands,
		s.client.B().Wait().Numreplicas(int64(wait)).Timeout(s.opts.Timeout.Milliseconds()/2+1).Build())
	results := s.client.DoMulti(ctx, commands...)
	n, err := results[len(results)-1].AsInt64()
	if err == nil && n < int64(wait) {
		err = errFewReplicas
	}
	for _, r := range results[len(calls) : len(results)-1] {
		err = cmp.Or(err, r.Error())
	}
	results = results[:len(calls)]
	if err != nil {
		for i := range results {
			if results[i].Error() == nil {
				results[i] = rueidis.NewErrorResult(err)
			}
		}
	}
	return results
}

// texts parses an answer that is a list of texts.
func texts(r rueidis.RedisResult) ([]string, error) { return r.AsStrSlice() }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
