package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"reprise"
)

// receiver keeps the bodies that come.
func receiver(w *fixture) (url string, came <-chan string) {
	bodies := make(chan string, 100)
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		text, _ := io.ReadAll(q.Body)
		bodies <- string(text)
	}))
	w.Cleanup(r.Close)
	return r.URL, bodies
}

// sendWebhooks sends until the test is over.
func (w *fixture) sendWebhooks() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.hooks.Send(ctx, 1)
	}()
	w.Cleanup(func() { cancel(); <-done })
}

func TestWebhooksOverHTTP(t *testing.T) {
	w := start(t, setup{audit: true})
	url, came := receiver(w)
	w.sendWebhooks()
	made := w.do("POST", "/v1/webhooks", `{"url":"`+url+`/secret-path"}`).is(201)
	self, secret := made.header.Get("Location"), made.text("secret")
	if self != "/v1/webhooks/"+made.text("id") || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("made: %v %s", made.header, made.body)
	}
	id := w.do("POST", "/v1/executions", `{"argv":["false"],"labels":{"a":"b"}}`).is(201).text("id")
	var sent struct {
		Type string
		Data struct {
			ID, Outcome string
			ExitCode    int `json:"exit_code"`
			Labels      map[string]string
		}
	}
	w.ok(json.Unmarshal([]byte(<-came), &sent))
	if sent.Type != "execution.ended" || sent.Data.ID != id || sent.Data.Outcome != "exited" ||
		sent.Data.ExitCode != 1 || sent.Data.Labels["a"] != "b" {
		t.Errorf("sent: %+v", sent)
	}
	w.eventually("it is shown as sent", func() bool {
		return strings.Contains(w.do("GET", self, "").is(200).body, `"sent":1,`)
	})
	w.do("POST", self+"/test", "").is(200)
	if body := <-came; !strings.Contains(body, `"webhook.test"`) {
		t.Errorf("test: %s", body)
	}
	second := w.do("POST", self+"/rotate", "").is(200).text("secret")
	w.do("POST", self+"/enable", "").is(200)
	for _, path := range []string{"/v1/webhooks", self} {
		a := w.do("GET", path, "").is(200)
		if strings.Contains(a.body, "whsec_") || !strings.Contains(a.body, `"executions"`) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	w.sawAct("token@default POST /v1/webhooks")
	w.sawAct("made " + self)
	if log := w.logged.String(); strings.Contains(log, secret) || strings.Contains(log, second) ||
		strings.Contains(log, "secret-path") {
		t.Errorf("a secret is in the log: %s", log)
	}
	w.do("DELETE", self, "").is(204)
	w.do("DELETE", self, "").refused(404, "not_found")
	for _, path := range []string{"", "/rotate", "/enable", "/test"} {
		method := "POST"
		if path == "" {
			method = "GET"
		}
		w.do(method, self+path, "").refused(404, "not_found")
	}
	w.do("POST", "/v1/webhooks", `{"url":"ftp://x"}`).refused(422, "invalid")
	w.do("POST", "/v1/webhooks", `{"url":"`+url+`","types":["x"]}`).refused(422, "invalid")
}

// A webhook belongs to those who may read and control all that it tells of, in one tenant, and dies with its maker.
func TestWebhooksNeedTheirScopes(t *testing.T) {
	w := start(t, setup{})
	url, came := receiver(w)
	w.sendWebhooks()
	keyID, ci := w.key(reprise.DefaultTenant, "read:ci-", "control:ci-", "publish")
	_, other := w.key("acme", "read", "control")
	_, reader := w.key(reprise.DefaultTenant, "read:ci-", "control:x-")
	hook := func(prefix string) string {
		return `{"url":"` + url + `","source":"streams","prefix":"` + prefix + `"}`
	}
	var self string
	w.with(ci, func() {
		w.do("POST", "/v1/webhooks", hook("")).refused(403, "forbidden")
		w.do("POST", "/v1/webhooks", hook("dev")).refused(403, "forbidden")
		self = w.do("POST", "/v1/webhooks", hook("ci-a")).is(201).header.Get("Location")
	})
	for _, key := range []string{other, reader} {
		w.with(key, func() {
			w.do("GET", self, "").refused(404, "not_found")
			w.do("DELETE", self, "").refused(404, "not_found")
			if a := w.do("GET", "/v1/webhooks", "").is(200); strings.Contains(a.body, "ci-a") {
				t.Errorf("listed: %s", a.body)
			}
		})
	}
	w.do("PUT", "/v1/streams/ci-a1", `{}`).is(201)
	w.do("POST", "/v1/streams/ci-a1/events", `{"type":"note","data":1}`).is(200)
	if body := <-came; !strings.Contains(body, `"ci-a1"`) {
		t.Errorf("sent: %s", body)
	}
	w.eventually("it is recorded as sent", func() bool { // what is under way may come again
		return strings.Contains(w.do("GET", self, "").is(200).body, `"sent":1,`)
	})
	w.do("DELETE", "/v1/keys/"+keyID, "").is(204)
	w.eventually("it is disabled", func() bool {
		return strings.Contains(w.do("GET", self, "").is(200).body, "is good no more")
	})
	w.do("POST", "/v1/streams/ci-a1/events", `{"type":"note","data":2}`).is(200)
	w.do("POST", self+"/enable", "").is(200) // in the name of the token
	if body := <-came; !strings.Contains(body, `"data":2`) {
		t.Errorf("sent: %s", body)
	}
}
