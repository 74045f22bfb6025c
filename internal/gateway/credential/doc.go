// Package credential fills the headers and variables for an upstream from the identity of the caller, so that each of
// many users behind one gateway has its own credential at an upstream.
//
//	templates, err := credential.New(credential.Texts{Header: map[string]string{"X-Token": "{{secrets.github}}"}})
//	filled, err := templates.Fill(&credential.Principal{Tenant: "default", Name: "alice@corp"}, secrets)
//
// The value of a header or of a variable is text with references between {{ and }}:
//
//	{{name}}           the name of the principal
//	{{tenant}}         its tenant
//	{{claims.CLAIM}}   a claim of its token
//	{{secrets.NAME}}   a secret that the gateway stores for it
//
// {{{{ stands for {{. Inserted text is not expanded again, so a claim that contains a reference stays as it is.
//
// An empty value is not inserted, nor one that could end a header or begin another value of it. In a header, names,
// tenants and claims must be visible ASCII without quotes, backslashes, commas and semicolons, and secrets printable
// ASCII. A variable accepts everything but control characters, and secrets everything but NUL. Otherwise the error is a
// [MissingError], which names the missing reference and shows no value.
package credential
