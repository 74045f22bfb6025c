package redisstore

import (
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
)

// A script without flags is refused by the server, before it does anything, when that has no memory, no disk or too few
// replicas for writes. What frees memory is let through.
var (
	appendScript = newScript("#!lua", appendText)
	adoptScript  = newScript("#!lua flags=allow-oom", adoptText)
	createScript = newScript("#!lua", createText)
	removeScript = newScript("#!lua flags=allow-oom", removeText)
	listScript   = newScript("#!lua", listText)
	readScript   = newScript("#!lua flags=no-writes", readText)
)

// script is a Lua script that the server keeps by its SHA-1.
type script struct {
	text, sha string
	reads     bool // and does not write
}

func newScript(head, text string) *script {
	whole := head + "\n" + baseText + text
	sum := sha1.Sum([]byte(whole)) // that is how Redis names scripts
	return &script{text: whole, sha: hex.EncodeToString(sum[:]), reads: text == readText}
}

// call is one run of a script.
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

// errFewReplicas: not as many replicas as Options.Wait have what was written or read.
var errFewReplicas = errors.New("too few replicas have it by now")

// run runs a script for each of calls in one round trip, and sends the text of the script where the server
// does not know it, as after its start. With wait, answers count only when so many replicas have all that they
// rest on.
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
	// The server remembers for each connection what was last written when it answered, reads included.
	commands = append(commands,
		s.client.B().Wait().Numreplicas(int64(wait)).Timeout(s.opts.Timeout.Milliseconds()/2+1).Build())
	results := s.client.DoMulti(ctx, commands...)
	last := len(calls)
	n, err := results[last].AsInt64()
	if err == nil && n < int64(wait) {
		err = errFewReplicas
	}
	results = results[:last]
	if err != nil {
		for i := range results {
			if results[i].Error() == nil {
				results[i] = rueidis.NewErrorResult(err)
			}
		}
	}
	return results
}

// texts reads an answer that is a list of texts.
func texts(r rueidis.RedisResult) ([]string, error) { return r.AsStrSlice() }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
