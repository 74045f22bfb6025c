// Package credential makes the headers and variables that an upstream is called with of who calls it, so that many
// users behind one gateway reach an upstream each with a credential of their own.
//
//	templates, err := credential.New(credential.Texts{Header: map[string]string{"X-Token": "{{secrets.github}}"}})
//	filled, err := templates.Fill(&credential.Principal{Tenant: "default", Name: "alice@corp"}, secrets)
//
// The value of a header or of a variable is text with references between {{ and }}:
//
//	{{name}}           the name of the principal
//	{{tenant}}         its tenant
//	{{claims.CLAIM}}   a claim of the token that it has shown
//	{{secrets.NAME}}   a secret that the gateway keeps for it
//
// {{{{ stands for {{. What is put in is not looked at again, so that a claim which holds a reference stays as it is.
//
// Nothing is put in that is empty, and nothing into a header that could end it, or begin another value of it: in a
// header, names, tenants and claims are visible ASCII without quotes, backslashes, commas and semicolons, secrets are
// printable ASCII. A variable takes all but control characters, secrets all but NUL. Else there is a [MissingError],
// which names what is missing and shows no value.
package credential
