// Package identity determines the sender of a request, the tenant of its data, and the permissions of the
// sender.
//
// A [Gate] stands in front of an HTTP API and turns each request into a
// [Principal]:
//
//	verifier, err := identity.NewToken(secret)
//	gate := identity.NewGate(keys, verifier, nil)
//	principal, err := gate.Identify(r)
//
// It accepts three kinds of proof, each with fewer rights than the one before:
//
//   - a credential in the header Authorization, which the [Verifier] checks. This package has a Verifier for a single
//     token; package apikey has one for API keys.
//   - the login cookie together with its secret in the header [LoginHeader], for pages of our own origin, made by
//     [Gate.Login].
//   - a ticket in the query of the URL, made by [Gate.Ticket]: it reads one
//     stream until it expires, and nothing else. It is for EventSource, which cannot
//     send headers.
//
// Cookies and tickets are not stored. They are signed with keys derived from those that
// sign cursors, and only name the credential that they were
// issued for. Tenant and scopes are looked up on each use, so cookies and tickets end with the credential.
//
// Nothing here writes a credential, a cookie or a ticket into an error or a log.
package identity
