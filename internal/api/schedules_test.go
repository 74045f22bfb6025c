package api_test

import (
	"context"
	"strings"
	"testing"

	"reprise"
)

func TestSchedulesOverHTTP(t *testing.T) {
	w := start(t, setup{audit: true})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.timed.Run(ctx, 1)
	}()
	defer func() { cancel(); <-done }()
	made := w.do("POST", "/v1/schedules",
		`{"cron":"@every 1s","execution":{"argv":["true"],"env":{"TOKEN":"hidden-value"},"labels":{"a":"b"}}}`).is(201)
	self, id := made.header.Get("Location"), made.text("id")
	w.eventually("a slot was started", func() bool {
		return strings.Contains(w.do("GET", self, "").is(200).body, `"outcome":"started"`)
	})
	list := w.do("GET", "/v1/executions?label=schedule="+id, "").is(200).body
	if !strings.Contains(list, `"id":"`+id+`-2`) || !strings.Contains(list, `"a":"b"`) {
		t.Errorf("executions: %s", list)
	}
	for _, path := range []string{"/v1/schedules", self} {
		if a := w.do("GET", path, "").is(200); strings.Contains(a.body, "hidden-value") ||
			!strings.Contains(a.body, `"TOKEN"`) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	if a := w.do("POST", self+"/disable", "").is(200); !strings.Contains(a.body, `"next":null`) {
		t.Errorf("disabled: %s", a.body)
	}
	w.do("POST", self+"/enable", "").is(200)
	w.sawAct("made " + self)
	w.do("DELETE", self, "").is(204)
	for _, path := range []string{"/disable", "/enable"} {
		w.do("POST", self+path, "").refused(404, "not_found")
	}
	w.do("GET", self, "").refused(404, "not_found")
	w.do("DELETE", self, "").refused(404, "not_found")
	for body, field := range map[string]string{
		`{"cron":"x","execution":{"argv":["true"]}}`:                          "cron",
		`{"cron":"@daily","zone":"Mars","execution":{"argv":["true"]}}`:       "zone",
		`{"cron":"@daily","overlap":"x","execution":{"argv":["true"]}}`:       "overlap",
		`{"cron":"@daily","missed":"x","execution":{"argv":["true"]}}`:        "missed",
		`{"cron":"@daily","execution":{"argv":["true"],"id":"x"}}`:            "execution.id",
		`{"cron":"@daily","execution":{"argv":["true"],"session":"a b"}}`:     "session",
		`{"cron":"@daily","execution":{"argv":["true"],"nothing":1},"x":"y"}`: "execution.nothing",
	} {
		if a := w.do("POST", "/v1/schedules", body).refused(422, "invalid"); !strings.Contains(a.body, `"`+field+`"`) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	_, key := w.key(reprise.DefaultTenant, "run:ci-")
	w.with(key, func() {
		w.do("POST", "/v1/schedules", `{"cron":"@daily","execution":{"argv":["true"]}}`).refused(403, "forbidden")
	})
}
