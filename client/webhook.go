package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// WebhookRequest describes a webhook to make. It is the body of POST /v1/webhooks.
type WebhookRequest struct {
	// URL is where to send.
	URL string `json:"url"`
	// Source is what to send: "executions" for their ends, the default, or "streams" for events.
	Source string `json:"source,omitempty"`
	// Stream is the one stream whose events are sent.
	Stream string `json:"stream,omitempty"`
	// Prefix is the prefix of the names of streams, or of the sessions of executions. "" includes all of them.
	Prefix string `json:"prefix,omitempty"`
	// Types are the types of events of streams. None means all.
	Types []string `json:"types,omitempty"`
	// Secret signs the messages: "whsec_" and base64 of 24 to 64 bytes. If it is empty, the server makes one.
	Secret string `json:"secret,omitempty"`
}

// Webhook is a webhook as the server shows it.
type Webhook struct {
	ID     string   `json:"id"`
	URL    string   `json:"url"`
	Source string   `json:"source"`
	Stream string   `json:"stream,omitempty"`
	Prefix string   `json:"prefix,omitempty"`
	Types  []string `json:"types"`
	// Principal is the owner, whose permissions limit what is sent.
	Principal string          `json:"principal"`
	Created   Time            `json:"created"`
	Secrets   []WebhookSecret `json:"secrets"`
	// Disabled is nil while the webhook is enabled.
	Disabled *Disabled `json:"disabled"`
	// Progress is nil except in the answer of Webhooks.Show.
	Progress *WebhookProgress `json:"progress,omitempty"`
	// Secret is a secret that was just made.
	Secret string `json:"secret,omitempty"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// WebhookSecret says when a secret was made, and until when it signs after it was replaced.
type WebhookSecret struct {
	Created Time `json:"created"`
	Expires Time `json:"expires"`
}

// WebhookProgress counts the messages of a webhook.
type WebhookProgress struct {
	// Queued is the number of the newest message, counted from 1, and Sent the number of the last one that was
	// acknowledged or dropped. Dropped is how many were dropped because the queue was full.
	Queued  uint64 `json:"queued"`
	Sent    uint64 `json:"sent"`
	Dropped uint64 `json:"dropped"`
	// Succeeded is the time of the last acknowledgement.
	Succeeded Time `json:"succeeded"`
	// Failing is the time since which every attempt has failed, with the status and the error of the last one.
	Failing Time   `json:"failing"`
	Status  int    `json:"status,omitempty"`
	Error   string `json:"error,omitempty"`
}

// WebhookAnswer is the answer of a receiver to a test message.
type WebhookAnswer struct {
	// Status is 0 if there was no answer.
	Status int `json:"status"`
	// Error is the reason of a failure.
	Error string `json:"error,omitempty"`
}

// Webhooks are the webhooks of a tenant.
type Webhooks struct{ noun noun }

// Webhooks returns the webhooks of the tenant of c.
func (c *Client) Webhooks() Webhooks { return Webhooks{noun{c, "webhook"}} }

// List returns the webhooks, newest first.
func (w Webhooks) List(ctx context.Context) ([]Webhook, error) {
	list, err := answer[struct {
		Webhooks []Webhook `json:"webhooks"`
	}](ctx, w.noun.client, w.noun.listing())
	return list.Webhooks, err
}

// Create makes a webhook. Its Secret cannot be retrieved later. The request is not sent again once it may have arrived.
func (w Webhooks) Create(ctx context.Context, q WebhookRequest) (Webhook, error) {
	return create[Webhook](ctx, w.noun, q)
}

// Show returns a webhook with its progress.
func (w Webhooks) Show(ctx context.Context, id string) (Webhook, error) {
	return ask[Webhook](ctx, w.noun, request{op: "show", method: http.MethodGet}, id, "")
}

// Rotate replaces the secret. The old one also signs for 24 hours. The request is not sent again once it may have
// arrived.
func (w Webhooks) Rotate(ctx context.Context, id string) (Webhook, error) {
	return ask[Webhook](ctx, w.noun, request{op: "rotate", method: http.MethodPost, once: true}, id, "/rotate")
}

// Enable lets a disabled webhook continue after its last message. From now on it belongs to the principal of the
// Client.
func (w Webhooks) Enable(ctx context.Context, id string) (Webhook, error) {
	return ask[Webhook](ctx, w.noun, request{op: "enable", method: http.MethodPost}, id, "/enable")
}

// Test sends one message of the type "webhook.test" and waits for the answer of the receiver. The request is not sent
// again once it may have arrived.
func (w Webhooks) Test(ctx context.Context, id string) (WebhookAnswer, error) {
	r := request{op: "test", method: http.MethodPost, once: true, patient: true}
	return ask[WebhookAnswer](ctx, w.noun, r, id, "/test")
}

// Remove removes a webhook with its unsent messages. The error wraps reprise.ErrNotFound if it does not exist.
func (w Webhooks) Remove(ctx context.Context, id string) error {
	return w.noun.remove(ctx, "remove", id)
}
