package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/client"
)

// nounCalls are the calls about objects with a path of their own, with the requests that they send.
var nounCalls = []struct {
	request string
	answer  string
	once    bool // it makes something
	call    func(context.Context, *client.Client) error
}{
	{"GET /v1/schedules", `{"schedules":[{"id":"s1"}]}`, false, func(ctx context.Context, c *client.Client) error {
		list, err := c.Schedules().List(ctx)
		return one(list, err, func(s client.Schedule) string { return s.ID })
	}},
	{
		`POST /v1/schedules {"cron":"@daily","missed":"once","execution":{"argv":["true"]}}`, `{"id":"s1"}`, true,
		func(ctx context.Context, c *client.Client) error {
			run := client.StartRequest{Argv: []string{"true"}}
			_, err := c.Schedules().Create(ctx, client.ScheduleRequest{Cron: "@daily", Missed: "once", Execution: run})
			return err
		},
	},
	{"GET /v1/schedules/a%2Fb", `{"id":"a/b"}`, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Schedules().Show(ctx, "a/b")
		return err
	}},
	{"POST /v1/schedules/s1/disable", `{"id":"s1"}`, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Schedules().Disable(ctx, "s1")
		return err
	}},
	{"POST /v1/schedules/s1/enable", `{"id":"s1"}`, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Schedules().Enable(ctx, "s1")
		return err
	}},
	{"DELETE /v1/schedules/s1", "", false, func(ctx context.Context, c *client.Client) error {
		return c.Schedules().Remove(ctx, "s1")
	}},
	{"GET /v1/webhooks", `{"webhooks":[{"id":"w1"}]}`, false, func(ctx context.Context, c *client.Client) error {
		list, err := c.Webhooks().List(ctx)
		return one(list, err, func(w client.Webhook) string { return w.ID })
	}},
	{
		`POST /v1/webhooks {"url":"https://example.org","source":"streams","stream":"a"}`, `{"id":"w1"}`, true,
		func(ctx context.Context, c *client.Client) error {
			q := client.WebhookRequest{URL: "https://example.org", Source: "streams", Stream: "a"}
			_, err := c.Webhooks().Create(ctx, q)
			return err
		},
	},
	{"GET /v1/webhooks/w1", `{"id":"w1"}`, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Webhooks().Show(ctx, "w1")
		return err
	}},
	{"POST /v1/webhooks/w1/rotate", `{"id":"w1"}`, true, func(ctx context.Context, c *client.Client) error {
		_, err := c.Webhooks().Rotate(ctx, "w1")
		return err
	}},
	{"POST /v1/webhooks/w1/enable", `{"id":"w1"}`, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Webhooks().Enable(ctx, "w1")
		return err
	}},
	{"POST /v1/webhooks/w1/test", `{"status":204}`, true, func(ctx context.Context, c *client.Client) error {
		got, err := c.Webhooks().Test(ctx, "w1")
		if err == nil && got.Status != 204 {
			err = errors.New("the answer is not the receiver's")
		}
		return err
	}},
	{"DELETE /v1/webhooks/w1", "", false, func(ctx context.Context, c *client.Client) error {
		return c.Webhooks().Remove(ctx, "w1")
	}},
	{"GET /v1/keys", `{"keys":[{"id":"k1"}]}`, false, func(ctx context.Context, c *client.Client) error {
		list, err := c.Keys().List(ctx)
		return one(list, err, func(k client.Key) string { return k.ID })
	}},
	{
		`POST /v1/keys {"name":"ci","scopes":["run:ci-"],"ttl":"1h0m0s"}`, `{"id":"k1"}`, true,
		func(ctx context.Context, c *client.Client) error {
			q := client.KeyRequest{Name: "ci", Scopes: []string{"run:ci-"}, TTL: client.Duration(time.Hour)}
			_, err := c.Keys().Create(ctx, q)
			return err
		},
	},
	{"GET /v1/keys/k1", `{"id":"k1"}`, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Keys().Show(ctx, "k1")
		return err
	}},
	{"POST /v1/keys/k1/rotate", `{"id":"k1"}`, true, func(ctx context.Context, c *client.Client) error {
		_, err := c.Keys().Rotate(ctx, "k1")
		return err
	}},
	{`PUT /v1/keys/k1/limits {"limits":{}}`, `{"id":"k1"}`, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Keys().Limit(ctx, "k1", nil)
		return err
	}},
	{"DELETE /v1/keys/k1", "", false, func(ctx context.Context, c *client.Client) error {
		return c.Keys().Revoke(ctx, "k1")
	}},
	{"GET /v1/quota", `{"quotas":[]}`, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Quotas(ctx, "", "")
		return err
	}},
	{"GET /v1/quota?principal=p&tenant=t", `{"quotas":[]}`, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Quotas(ctx, "t", "p")
		return err
	}},
	{"GET /v1/audit/events?after=c&gap=event", "{}", false, func(ctx context.Context, c *client.Client) error {
		opts := client.PageOptions{After: "c"}
		_, err := c.PageAudit(ctx, &opts)
		return err
	}},
	{"POST /v1/audit/check", `{"records":2}`, false, func(ctx context.Context, c *client.Client) error {
		found, err := c.CheckAudit(ctx)
		if err == nil && found.Records != 2 {
			err = errors.New("the check is not the one that was answered")
		}
		return err
	}},
}

// one checks a list of one object.
func one[T any](list []T, err error, id func(T) string) error {
	if err == nil && (len(list) != 1 || id(list[0]) == "") {
		return errors.New("the list is not the one that was answered")
	}
	return err
}

// Each call sends its request, and what makes something is not sent again once it may have arrived.
func TestNounsAreAskedByPath(t *testing.T) {
	for _, c := range nounCalls {
		t.Run(c.request, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := jsonAnswer(200, c.answer)
				if c.answer == "" {
					answer = plain(204, "", "")
				}
				w := script(answer)
				if err := c.call(t.Context(), w.client(t, client.Options{})); err != nil {
					t.Fatal(err)
				}
				r := w.request(t, 0)
				got := strings.TrimSpace(r.Method + " " + strings.TrimPrefix(r.RequestURI, "/base") + " " + w.bodies[0])
				if diff := cmp.Diff(c.request, got); diff != "" {
					t.Error(diff)
				}

				w = script([]byte{}, answer) // the first answer is lost
				err := c.call(t.Context(), w.client(t, client.Options{}))
				if c.once != (err != nil) || c.once != (w.count() == 1) {
					t.Errorf("after a lost answer: %v, %d requests", err, w.count())
				}
			})
		})
	}
}

// An object that a later attempt does not find was removed by an earlier one, whose answer was lost.
func TestRemoveAfterALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := problemAnswer(404, "", "not_found", false)
		remove := func(id string, answers ...[]byte) error {
			return script(answers...).client(t, client.Options{}).Schedules().Remove(t.Context(), id)
		}
		if err := remove("s1", []byte{}, missing); err != nil {
			t.Error(err)
		}
		if err := remove("s1", missing); !errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("the error is %v", err)
		}
		if err := remove(".."); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("the error for a path is %v", err)
		}
	})
}

// A schedule keeps what this client does not know, and its times.
func TestScheduleIsDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = `{"id":"s1","next":"2026-11-20T09:30:00.000Z","disabled":{"since":"2026-11-20T09:30:00.000Z",` +
			`"reason":"by me"},"slots":[{"at":"2026-11-20T09:30:00.000Z","outcome":"missed","count":3}],"new":[1]}`
		got, err := script(jsonAnswer(200, text)).client(t, client.Options{}).Schedules().Show(t.Context(), "s1")
		at := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
		if err != nil || string(got.Raw) != text || !got.Next.Equal(at) || !got.Disabled.Since.Equal(at) ||
			got.Slots[0].Count != 3 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Records of the audit log that are no longer kept are an event, with their number.
func TestAuditGapIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script(jsonAnswer(200, `{"events":[{"type":"gap","cursor":"c","code":"cursor_expired","missed":3},`+
			`{"type":"audit","cursor":"d","seq":4,"time":"2026-11-20T09:30:00.000Z","data":{"act":"made","n":4}}]}`))
		page, err := w.client(t, client.Options{}).PageAudit(t.Context(), nil)
		if err != nil || len(page.Events) != 2 || page.Events[0].Gap.Missed != 3 {
			t.Fatalf("%+v, %v", page, err)
		}
		var got client.AuditRecord
		if err := json.Unmarshal(page.Events[1].Data, &got); err != nil || got.Act != "made" || got.N != 4 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
