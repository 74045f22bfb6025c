// Package oidc verifies the access tokens of identity providers: JSON Web Tokens (RFC 7519, RFC 9068) whose keys an
// OpenID provider publishes.
//
// A [Verifier] knows one or several issuers and is an [identity.Verifier]:
//
//	issuers, err := oidc.ReadConfig(file)
//	verifier, err := oidc.New(issuers, &oidc.Options{Resource: &oidc.Resource{URL: "https://reprise.example.org"}})
//	gate := identity.NewGate(keys, verifier.Before(token), nil)
//
// A token is good if one of the keys of its issuer has signed it with an asymmetric algorithm of a fixed list, if it is
// meant for this server by its audience, and if the time is between its nbf and exp, with 30 seconds of leeway. An
// [Issuer] says which tenant, name and scopes its claims give.
//
// Keys are found by OpenID Connect Discovery 1.0 and fetched again as time goes on, and when a token names one that is
// not known. What a provider sends is bounded in size and time. The last good set is kept while the provider is away. A
// key that the provider has withdrawn ends what was opened with its tokens.
//
// [Resource] is what OAuth clients are told of the server: the metadata of RFC 9728, and challenges.
package oidc
