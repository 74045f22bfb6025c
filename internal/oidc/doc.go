// Package oidc verifies the access tokens of identity providers: JSON Web Tokens (RFC 7519, RFC 9068) whose keys an
// OpenID provider publishes.
//
// A [Verifier] knows one or several issuers and is an [identity.Verifier]:
//
//	issuers, err := oidc.ReadConfig(file)
//	verifier, err := oidc.New(issuers, &oidc.Options{Resource: &oidc.Resource{URL: "https://reprise.example.org"}})
//	gate := identity.NewGate(keys, verifier.Before(token), nil)
//
// A token is valid if one of the keys of its issuer has signed it with an asymmetric algorithm of a fixed list, if its
// audience is this server, and if the time is between its nbf and exp, with 30 seconds of leeway. An
// [Issuer] defines how its claims give tenant, name and scopes.
//
// Keys are found by OpenID Connect Discovery 1.0. They are fetched again periodically, and when a token names an
// unknown key. Documents of a provider are limited in size and time. The last valid set is used while the provider is
// unreachable. When the provider withdraws a key, everything that was opened with its tokens ends.
//
// [Resource] describes the server to OAuth clients: the metadata of RFC 9728, and challenges.
package oidc
