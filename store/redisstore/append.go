package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"reprise"
	"reprise/store/internal/driver"
)

// Limits of requests and bytes in one script, so that a script does not block the server for long.
const (
	groupRequests = 64
	groupBytes    = 1 << 20
)

// Answers of append.lua for a request. Some are followed by a text.
const (
	isStored      = '0'
	isNotFound    = '1'
	isFenced      = '2'
	isEnded       = '3'
	isConflict    = '4' // and the tail
	isOtherServer = '5'
	isFailed      = '6' // and the error
)

// Append sends all requests in one round trip. It takes more round trips if a request ends its stream, or if the server
// has restarted.
func (s *Store) Append(ctx context.Context, reqs []reprise.AppendRequest) (errs []error) {
	defer func() { driver.Map(ctx, errs, storeError) }()
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	defer leave()
	a := appending{store: s, ctx: bounded, reqs: reqs}
	a.noteEnds()
	left := make([]int, 0, len(reqs))
	for i := range reqs {
		if a.errs == nil || a.errs[i] == nil {
			left = append(left, i)
		}
	}
	for range adoptRounds {
		if left = a.send(left); len(left) == 0 {
			break
		}
		left = a.adopt(left)
	}
	for _, i := range left {
		a.refuse(i, errOtherServer)
	}
	for i, err := range a.errs {
		if err != nil && !isRefusal(err) {
			a.errs[i] = storeError(ctx, err)
		}
	}
	return a.errs
}

func isRefusal(err error) bool {
	for _, e := range [...]error{reprise.ErrNotFound, reprise.ErrFenced, reprise.ErrEnded, reprise.ErrConflict} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// appending is the state of one call of Append.
type appending struct {
	store *Store
	ctx   context.Context
	reqs  []reprise.AppendRequest
	errs  []error // nil while all is well
}

func (a *appending) refuse(i int, err error) {
	a.errs = driver.Refuse(a.errs, len(a.reqs), i, err)
}

// noteEnds adds streams to the expiry queue before they end. Sweep ignores an entry whose stream has not ended, but a
// stream without an entry would be kept forever.
func (a *appending) noteEnds() {
	var commands []rueidis.Completed
	var at []int
	for i := range a.reqs {
		if req := &a.reqs[i]; req.End != nil {
			commands = append(commands, a.store.noteEnd(req.Key, req.Epoch, ceilMillis(req.End.Expires)))
			at = append(at, i)
		}
	}
	for n, r := range a.store.client.DoMulti(a.ctx, commands...) {
		if err := r.Error(); err != nil {
			a.refuse(at[n], err)
		}
	}
}

// send sends the requests. It returns those whose stream was last appended to on another server.
func (a *appending) send(which []int) (others []int) {
	var calls []call
	var groups [][]int
	for len(which) > 0 {
		n := a.group(which)
		calls = append(calls, a.call(which[:n]))
		groups = append(groups, which[:n])
		which = which[n:]
	}
	for g, r := range a.store.run(a.ctx, appendScript, a.store.opts.Wait, calls...) {
		answers, err := texts(r)
		for n, i := range groups[g] {
			switch {
			case err != nil:
				a.refuse(i, err)
			case n >= len(answers) || answers[n] == "":
				a.refuse(i, fmt.Errorf("an answer of %d parts for %d requests", len(answers), len(groups[g])))
			case answers[n][0] == isOtherServer:
				others = append(others, i)
			default:
				a.answer(i, answers[n])
			}
		}
	}
	return others
}

// group returns how many of the requests go into one script.
func (a *appending) group(which []int) int {
	if a.store.cluster {
		return 1 // each has its slot
	}
	bytes := 0
	for n, i := range which {
		bytes += len(a.reqs[i].Bytes)
		if n == groupRequests || n > 0 && bytes > groupBytes {
			return n
		}
	}
	return len(which)
}

// requestArgs is the number of arguments of append.lua for a request, without the optional ones.
const requestArgs = 9

// call returns the arguments of append.lua.
func (a *appending) call(which []int) call {
	s := a.store
	c := call{keys: make([]string, 0, 2*len(which)), args: make([]string, 0, 2+(requestArgs+1)*len(which))}
	c.args = append(c.args, s.publish, s.me)
	var more []string
	for _, i := range which {
		req := &a.reqs[i]
		c.keys = append(c.keys, s.keys.state(req.Key), s.keys.batches(req.Key))
		at := "0"
		if req.End != nil || len(req.Producers) > 0 {
			at = strconv.Itoa(2 + requestArgs*len(which) + len(more) + 1)
			end, expires := "", ""
			if req.End != nil {
				// marshalEnd cannot fail here: the fields are bytes, and times before the year 10000.
				end, _ = marshalEnd(req.End)
				expires = millis(req.End.Expires)
			}
			more = append(more, end, expires, marshalProducers(req.Producers), s.keysExpire(req.End))
		}
		c.args = append(c.args, life(req.Epoch, req.Owner), decimal(req.First-1), decimal(
			req.First+uint64(req.Count)-1,
		),
			decimal(req.Earliest), strconv.FormatInt(req.Kept, 10), head(req), rueidis.BinaryString(req.Bytes),
			decimal(req.Revision), at)
	}
	c.args = append(c.args, more...)
	return c
}

// head returns the metadata that is stored beside the bytes of a batch.
func head(req *reprise.AppendRequest) string {
	var b [32]byte
	text := append(strconv.AppendInt(b[:0], int64(req.Count), 10), ' ')
	return string(strconv.AppendUint(text, uint64(checksum(req.First, req.Count, req.Bytes)), 10))
}

// answer records the script's answer to a request.
func (a *appending) answer(i int, text string) {
	switch text[0] {
	case isStored:
	case isNotFound:
		a.refuse(i, reprise.ErrNotFound)
	case isFenced:
		a.refuse(i, reprise.ErrFenced)
	case isEnded:
		a.refuse(i, reprise.ErrEnded)
	case isConflict:
		a.refuse(i, fmt.Errorf("%w: a batch that begins with %d, the tail is %s, or the configuration has changed",
			reprise.ErrConflict, a.reqs[i].First, text[1:]))
	default:
		a.refuse(i, fmt.Errorf("stream %s: %s", a.reqs[i].Key, text[1:]))
	}
}

// adopt decides the epochs of streams whose server has changed since their last append. It returns the requests that
// must be sent again. A request whose stream has moved to another epoch gets ErrNotFound.
func (a *appending) adopt(which []int) (again []int) {
	s := a.store
	keeps, err := s.restartKeeps(a.ctx)
	if err != nil { // whether events are lost is not decided without the answer
		for _, i := range which {
			a.refuse(i, err)
		}
		return nil
	}
	calls := make([]call, len(which))
	for n, i := range which {
		req := &a.reqs[i]
		calls[n] = s.adoption(req.Key, req.Epoch, keeps, req.First-1)
	}
	for n, r := range s.run(a.ctx, adoptScript, 0, calls...) {
		i := which[n]
		said, err := r.ToString()
		switch {
		case err != nil:
			a.refuse(i, err)
		case said == renewed:
			s.tellRenewed(a.reqs[i].Key, a.reqs[i].Epoch)
			a.refuse(i, reprise.ErrNotFound)
		default:
			again = append(again, i)
		}
	}
	return again
}
