// Package identity answers who sent a request, whose data that is, and what the
// sender may do.
//
// A [Gate] stands in front of an HTTP API and turns each request into a
// [Principal]:
//
//	verifier, err := identity.NewToken(secret)
//	gate := identity.NewGate(keys, verifier, nil)
//	principal, err := gate.Identify(r)
//
// It takes three kinds of proof, and each is good for less than the one before:
//
//   - a credential in the header Authorization, which the [Verifier] judges. One
//     token for everything is the Verifier that is here; package apikey has that of API keys.
//   - the login cookie, for pages of our own origin, made by [Gate.Login].
//   - a ticket in the query of the URL, made by [Gate.Ticket]: it reads one
//     stream until it expires, and nothing else. It is for EventSource, which can
//     send no header.
//
// Cookies and tickets are kept nowhere: they are signed with keys derived from those that
// sign cursors, and name the credential that they were
// given for and nothing more. Tenant and scopes are looked up when they are used, so they die with it.
//
// Nothing here writes a credential, a cookie or a ticket into an error or a log.
package identity
