package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"reprise"
	"reprise/internal/wire"
)

// Time is a time.Time that is written as RFC 3339 in UTC with milliseconds.
type Time = wire.Time

// Disabled says since when and why a schedule starts nothing, or a webhook sends nothing.
type Disabled struct {
	Since  Time   `json:"since"`
	Reason string `json:"reason"`
}

// noun is a kind of object with an id and a path of its own, such as "schedule" with /v1/schedules.
type noun struct {
	client *Client
	name   string
}

func (n noun) path() string { return "/v1/" + n.name + "s" }

func (n noun) listing() *request {
	return &request{op: "list " + n.name + "s", method: http.MethodGet, path: n.path()}
}

// create makes an object. The request is not sent again once it may have arrived, because that could make a second one.
func create[T any](ctx context.Context, n noun, body any) (T, error) {
	r, err := jsonRequest("make "+n.name, http.MethodPost, n.path(), body)
	if err != nil {
		return *new(T), err
	}
	r.once = true
	return answer[T](ctx, n.client, r)
}

// ask sends a request about one object, whose path is followed by rest.
func ask[T any](ctx context.Context, n noun, r request, id, rest string) (T, error) {
	r.op += " " + n.name + " " + id
	if err := checkName(r.op, id); err != nil {
		return *new(T), err
	}
	r.path = n.path() + "/" + url.PathEscape(id) + rest
	return answer[T](ctx, n.client, &r)
}

// remove removes an object. If a later attempt does not find it, an earlier one has removed it.
func (n noun) remove(ctx context.Context, verb, id string) error {
	err := n.client.remove(ctx, verb+" "+n.name+" "+id, id, n.path()+"/"+url.PathEscape(id))
	if failed, ok := errors.AsType[*Error](err); ok && failed.Tries > 1 && errors.Is(err, reprise.ErrNotFound) {
		return nil
	}
	return err
}
