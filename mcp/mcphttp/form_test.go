package mcphttp

import (
	"bytes"
	"testing"

	"reprise"
)

// Some clients resume after an id as soon as its line has come, so that of a message comes after its data.
func TestIDIsTheLastFieldOfAMessage(t *testing.T) {
	f := form{exchange: "S"}
	long := bytes.Repeat([]byte("x"), maxEvent)
	message := append(append(append([]byte(`{"long":"`), long...), long...), `"}`...)
	for _, whole := range [][]byte{[]byte(`{"jsonrpc":"2.0"}`), message} {
		var block []byte
		events := messageEvents(whole)
		for i := range events {
			if events[i].Type == "" {
				events[i].Type = typeMessage
			}
			events[i].Seq = uint64(i + 1)
			block = f.AppendEvent(block, &events[i], ".E.T")
		}
		data, found := bytes.CutPrefix(block, []byte("event: message\ndata: "))
		data, after := bytes.CutPrefix(data, whole)
		want := "\nid: S~" + string('0'+rune(len(events))) + ".E.T\n\n"
		if !found || !after || string(data) != want {
			t.Errorf("%d events: %.99q ... %q, want %q", len(events), block, data[max(0, len(data)-60):], want)
		}
	}
	end := f.AppendEvent(nil, &reprise.Event{Type: reprise.TypeEnd, Seq: 2, Data: []byte("{}")}, ".E.T")
	if want := "event: message\ndata: {}\nid: S~2.E.T\n\n"; string(end) != want {
		t.Errorf("the end is %q, want %q", end, want)
	}
}
