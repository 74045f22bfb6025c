// Package webhook tells receivers by signed POST requests what has happened: that an execution has ended, or that a
// stream has new events.
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
// Each hook has a queue, a stream named "webhook:<id>" of its tenant. A collector looks for streams that the hook
// covers, follows them, and appends what is to be sent; a sender takes from the queue in order. Both record their
// positions in the queue, so whoever takes over goes on after them. A message is sent until a receiver has
// answered with 2xx, so it may arrive more than once; its id is derived from the hook and the event, and is the
// same each time. Messages about one stream come in the order of its events, and messages of one hook one after
// the other.
//
// The queue is bounded. A receiver that was away for so long that messages were dropped is sent a message
// "webhook.gap" with their number. After Options.GiveUp without a success, after 410 Gone, and when the credential of
// whoever made the hook is good no more, the hook is disabled.
//
// # One sender
//
// Send works under a fence, which becomes part of the owner of every queue: what an earlier sender still records is
// refused, and it stops.
package webhook
