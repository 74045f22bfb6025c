// Package webhook sends signed POST requests to receivers when an execution has ended or a stream has new events.
//
//	hooks, err := webhook.Open(ctx, log, &webhook.Options{Principal: gate.Named})
//	hook, secret, err := hooks.Add(ctx, webhook.Request{URL: url, Source: webhook.Executions, ...})
//	err = hooks.Send(ctx, fence) // on one replica at a time
//
// Requests carry the headers of Standard Webhooks 1.0 (https://www.standardwebhooks.com): webhook-id, webhook-timestamp
// and webhook-signature, an HMAC with SHA-256 under a secret of the hook.
//
// # What is sent, and how often
//
// Each hook has a queue, a stream named "webhook:<id>" of its tenant. A collector finds and follows the streams that
// the hook covers and appends messages to the queue. A sender sends them in order. Both record their positions in the
// queue, so a successor continues after them. A message is sent until a receiver has answered with 2xx, so it may
// arrive more than once; its id is derived from the hook and the event, and is the same each time. Messages about one
// stream are sent in the order of its events, and messages of one hook one after the other.
//
// The queue is bounded. A receiver that was unavailable for so long that messages were dropped is sent a message
// "webhook.gap" with their number. A hook is disabled after Options.GiveUp without a success, after 410 Gone, and when
// the credential of its maker is no longer valid.
//
// # One sender
//
// Send takes a fence, which becomes part of the owner of every queue. Records of an earlier sender are then refused,
// and that sender stops.
package webhook
