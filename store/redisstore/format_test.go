package redisstore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
)

// What is read is written as the same text again, and anything else is refused without harm.
func FuzzFormat(f *testing.F) {
	f.Add("1:a0 1 2 3;5:b;:c47 8 9 18446744073709551615;")
	f.Add("MN5PD0K557GFZHMR replica-k3v9 7")
	f.Add("MN5PD0K557GFZHMR  0")
	f.Add("12:1763756000000:default/builds/linux:x")
	f.Add(`{"outcome":"Y29tcGxldGVk","time":"2026-11-21T20:11:55.18Z","expires":"2326-11-21T20:11:55Z"}`)
	f.Add(`{"max_events":5,"labels":{"6b6579":"dmFsdWU="},"meta":"AA=="}`)
	f.Fuzz(func(t *testing.T, text string) {
		if list, err := unmarshalProducers(text); err == nil {
			again, err := unmarshalProducers(marshalProducers(list))
			if err != nil || !cmp.Equal(list, again) {
				t.Errorf("producers %q: %v, then %v, %v", text, list, again, err)
			}
		}
		if epoch, owner, err := parseLife(text); err == nil {
			e, o, err := parseLife(life(epoch, owner))
			if err != nil || e != epoch || o != owner {
				t.Errorf("life %q: %q %v, then %q %v, %v", text, epoch, owner, e, o, err)
			}
		}
		if end, err := unmarshalEnd(text); err == nil {
			again, err := marshalEnd(end)
			if _, uerr := unmarshalEnd(again); err == nil && uerr != nil {
				t.Errorf("end %q: %v", text, uerr)
			}
		}
		if config, err := unmarshalConfig(text); err == nil {
			again, err := marshalConfig(config)
			c, uerr := unmarshalConfig(again)
			if err != nil || uerr != nil || !c.Equal(config) {
				t.Errorf("config %q: %v, then %v, %v %v", text, config, c, err, uerr)
			}
		}
		_, _ = parsePlace(text)
		_, _ = parseEnding(text, 1)
	})
}

// Equal configurations are the same text, which is how a script compares them.
func TestEqualConfigurations(t *testing.T) {
	a := reprise.StreamConfig{Labels: map[string]string{"a": "1", "b": "\xff", "c": ""}, Meta: []byte{}}
	b := reprise.StreamConfig{Labels: map[string]string{"c": "", "b": "\xff", "a": "1"}}
	x, xerr := marshalConfig(a)
	y, yerr := marshalConfig(b)
	if xerr != nil || yerr != nil || x != y || !a.Equal(b) {
		t.Errorf("%s, %v and %s, %v", x, xerr, y, yerr)
	}
}

// A time is rounded up, so that nothing happens before it.
func TestMillisRoundUp(t *testing.T) {
	for text, at := range map[string]time.Time{
		"0":               {},
		"1":               time.UnixMicro(1),
		"2":               time.UnixMilli(2),
		"3":               time.UnixMicro(2001),
		"253370764800000": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got := millis(at); got != text {
			t.Errorf("%v: %s, want %s", at, got, text)
		}
	}
}

// TestViewsOfOneHistoryAreJoined joins two views between which the stream was appended to, got another epoch, or was
// read from another server.
func TestViewsOfOneHistoryAreJoined(t *testing.T) {
	take := func(tail, from, to uint64) view {
		v := view{server: history{id: "one", master: true}}
		v.page.Info = reprise.StreamInfo{Epoch: "MN5PD0K557GFZHMR", Earliest: 1, Tail: tail}
		for seq := from; seq <= to; seq++ {
			v.page.Batches = append(v.page.Batches, reprise.Batch{First: seq, Count: 1})
		}
		return v
	}
	got, more := take(6, 1, 4), take(9, 5, 9)
	if !got.extend(&more) || got.page.Info.Tail != 6 || len(got.page.Batches) != 6 {
		t.Errorf("the joined view has %d batches up to %d, want 6", len(got.page.Batches), got.page.Info.Tail)
	}
	for _, change := range []func(*view){
		func(v *view) { v.page.Info.Epoch = "another" },
		func(v *view) { v.server.id = "another" },
		func(v *view) { v.server.promoted = true },
	} {
		got, more := take(6, 1, 4), take(6, 5, 6)
		if change(&more); got.extend(&more) {
			t.Errorf("a view of %v and one of %v were joined", got.server, more.server)
		}
	}
}
