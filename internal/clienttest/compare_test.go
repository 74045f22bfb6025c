package clienttest

import (
	"strings"
	"testing"
)

func TestPartsOfEventsCountAsNeitherLostNorDoubled(t *testing.T) {
	want := []Event{{Seq: 1, Type: "note", Data: []byte("a")}, {Seq: 2, Type: "note", Data: []byte("b")}}
	r := &run{}
	err := r.compare(want, []Event{want[0], {Type: "note", Data: []byte(`{"seq":2,`)}, {Type: "note"}, want[1]})
	if err == nil || strings.Count(err.Error(), "has no seq") != 2 {
		t.Errorf("two parts of events: %v", err)
	}
	if lost, doubled := r.lost.Load(), r.doubled.Load(); lost != 0 || doubled != 0 {
		t.Errorf("two parts of events: %d lost, %d doubled", lost, doubled)
	}
	if err := r.compare(want, []Event{want[0], want[0], {Type: "note"}}); err == nil {
		t.Error("an event came twice, and another one not")
	}
	if lost, doubled := r.lost.Load(), r.doubled.Load(); lost != 1 || doubled != 1 {
		t.Errorf("one event twice, and one not: %d lost, %d doubled", lost, doubled)
	}
}
