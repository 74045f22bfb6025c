package storetest

import (
	"sync/atomic"
	"time"

	"reprise"
)

const (
	ruleCreateNew        = "It must return the stream as it is kept, with no events: a new one has Earliest info.Tail+1 and Bytes 0."
	ruleCreateCopied     = "For a stream that is copied from another Store, info.Tail, info.End, info.Producers and info.Lineage are kept as given too; otherwise they are zero."
	ruleCreateExisting   = "If the stream exists with an equal configuration, Create must return the existing stream and change nothing; with another configuration it must return ErrConflict."
	ruleCreateExpired    = "The name of an expired stream must be free again."
	ruleCreateConcurrent = "Of concurrent calls exactly one must create."
)

var createChecks = []check{
	{name: "fresh", rule: ruleCreateNew, run: func(e *env) {
		for name, config := range configs() {
			s := e.createKey(key(name), config)
			s.same()
		}
	}},
	{name: "same", rule: ruleCreateExisting, run: func(e *env) {
		for name, config := range configs() {
			s := e.createKey(key(name), config).append(3, 2).trim(3)
			again := s.info
			again.Epoch, again.Created = reprise.NewEpoch(), again.Created.Add(time.Minute)
			info, err := e.store.Create(e.ctx, again)
			e.noError(err, "create %s again", name)
			e.sameInfo(info, s.state())
			s.same()
			s.append(1).same()
		}
	}},
	{name: "ended", rule: ruleCreateExisting, run: func(e *env) {
		s := e.create("ended").append(1).finish(now().Add(time.Hour))
		info, err := e.store.Create(e.ctx, s.info)
		e.noError(err, "create an ended stream again")
		e.sameInfo(info, s.state())
	}},
	{name: "conflict", rule: ruleCreateExisting, run: createConflict},
	{name: "copied", rule: ruleCreateCopied, run: createCopied},
	{name: "copied after its end", rule: ruleCreateCopied, run: createCopiedEnded},
	{name: "copied producers", rule: ruleCreateCopied, run: createCopiedProducers},
	{name: "copied lineage", rule: ruleCreateCopied, run: createCopiedLineage},
	{name: "copied lineage, opened again", rule: ruleCreateCopied, needs: persists, run: func(e *env) {
		s := e.createLineage("s", 3)
		e.reopen()
		s.same()
		s.append(1)
		e.reopen()
		s.same()
	}},
	{name: "expired", rule: ruleCreateExpired, run: func(e *env) {
		s := e.create("name").append(2)
		s.remove(reprise.RemoveSpec{Remember: now().Add(time.Hour)})
		s.gone(reprise.ErrExpired)
		e.create("name").append(1).same()
		s.refused(s.request(1), reprise.ErrNotFound, "to the epoch that has expired")
	}},
	{name: "concurrent", rule: ruleCreateConcurrent, run: createConcurrent},
}

// configs are configurations of every kind that a Log lets through.
func configs() map[string]reprise.StreamConfig {
	meta := make([]byte, 64<<10)
	for i := range meta {
		meta[i] = byte(i)
	}
	return map[string]reprise.StreamConfig{
		"plain":     {},
		"retention": {Retention: reprise.Retention{MaxEvents: 1<<63 - 1, MaxBytes: 1, MaxAge: 90 * time.Minute}},
		"labels": {Labels: map[string]string{
			"empty": "", "quoted": `'"\`, "utf-8": "żółć", "not utf-8": "\xff\x00\xfe", "\n": "\t", "a=b": "c,d",
		}},
		"meta": {Meta: meta},
		"all": {
			Retention: reprise.Retention{MaxEvents: 1, MaxBytes: 2, MaxAge: 3},
			Labels:    map[string]string{"k": "v"}, Meta: []byte{0},
		},
	}
}

func createConflict(e *env) {
	s := e.createKey(key("s"), configs()["all"]).append(2)
	others := map[string]reprise.StreamConfig{}
	for _, what := range []string{"MaxEvents", "MaxBytes", "MaxAge", "a label's value", "a label", "Meta"} {
		others[what] = configs()["all"]
	}
	change := func(what string, f func(c *reprise.StreamConfig)) {
		c := others[what]
		f(&c)
		others[what] = c
	}
	change("MaxEvents", func(c *reprise.StreamConfig) { c.Retention.MaxEvents++ })
	change("MaxBytes", func(c *reprise.StreamConfig) { c.Retention.MaxBytes++ })
	change("MaxAge", func(c *reprise.StreamConfig) { c.Retention.MaxAge++ })
	change("a label's value", func(c *reprise.StreamConfig) { c.Labels = map[string]string{"k": "w"} })
	change("a label", func(c *reprise.StreamConfig) { c.Labels = map[string]string{"k": "v", "l": ""} })
	change("Meta", func(c *reprise.StreamConfig) { c.Meta = []byte{1} })
	for what, config := range others {
		info := s.info
		info.Epoch, info.Config = reprise.NewEpoch(), config
		_, err := e.store.Create(e.ctx, info)
		e.wantError(err, reprise.ErrConflict, "create with another %s", what)
	}
	s.same()
}

func createConcurrent(e *env) {
	const callers = 16
	for range 20 {
		k := key("name/" + string(reprise.NewEpoch()))
		var created atomic.Int64
		var kept [callers]reprise.StreamInfo
		e.concurrently(callers, func(i int) {
			want := reprise.StreamInfo{Key: k, Epoch: reprise.NewEpoch(), Created: now()}
			info, err := e.store.Create(e.ctx, want)
			e.noError(err, "create %s", k)
			if info.Epoch == want.Epoch {
				created.Add(1)
			}
			kept[i] = info
		})
		if n := created.Load(); n != 1 {
			e.failf("%d of %d concurrent calls have created the stream, want 1", n, callers)
		}
		for i := range kept {
			e.sameInfo(kept[i], kept[0])
		}
	}
}
