package upkeep_test

import (
	"errors"
	"testing"
	"time"

	"reprise"
	"reprise/internal/upkeep"
	"reprise/store/memstore"
)

// TestMoveGoesOnWithWhatHasChanged: after a move that was interrupted, a server has gone on with the source. A stream
// that is gone there, has another life or another configuration is that of the source when the move is made again. In a
// store that is not ours none of it is touched.
func TestMoveGoesOnWithWhatHasChanged(t *testing.T) {
	from, to := memstore.New(nil), memstore.New(nil)
	stream := func(store reprise.Store, name string, epoch reprise.Epoch, label string) {
		key := reprise.StreamKey{Tenant: "t", Name: name}
		_, err := store.Create(t.Context(), reprise.StreamInfo{
			Key: key, Epoch: epoch, Created: time.Unix(1, 0),
			Config: reprise.StreamConfig{Labels: map[string]string{"label": label}},
		})
		for _, more := range store.Append(t.Context(), []reprise.AppendRequest{{
			Key: key, Epoch: epoch, First: 1, Count: 1, Bytes: []byte(name + label), Earliest: 1, Kept: 1,
		}}) {
			err = errors.Join(err, more)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stream(from, "same", "e", "")
	stream(to, "same", "e", "")
	for _, c := range []struct {
		name, label string
		epoch       reprise.Epoch
	}{{"other life", "", "f"}, {"configured", "new", "e"}, {"added", "", "e"}} {
		stream(from, c.name, c.epoch, c.label)
	}
	for _, name := range []string{"other life", "configured", "removed"} {
		stream(to, name, "e", "")
		if _, err := upkeep.Move(t.Context(), from, to, false, nil); !errors.Is(err, upkeep.ErrOthers) {
			t.Errorf("into a store with streams of its own: %v", err)
		}
	}
	result, err := upkeep.Move(t.Context(), from, to, true, nil)
	if err != nil || result.Copied != 3 || result.Present != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	page, err := to.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	if err != nil || len(page.Streams) != 4 {
		t.Fatalf("%d streams, %v", len(page.Streams), err)
	}
	for _, info := range page.Streams {
		if name := info.Key.Name; name == "other life" && info.Epoch != "f" ||
			name == "configured" && info.Config.Labels["label"] != "new" {
			t.Errorf("%+v", info)
		}
	}
	if result, err = upkeep.Move(t.Context(), from, to, false, nil); err != nil || result.Present != 4 {
		t.Errorf("again: %+v, %v", result, err)
	}
}
