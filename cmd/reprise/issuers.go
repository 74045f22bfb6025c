package main

import (
	"os"

	"reprise/internal/oidc"
)

// issuerFlags name the identity providers whose tokens are taken.
type issuerFlags struct {
	OIDCIssuer   []string `name:"oidc-issuer" placeholder:"URL" help:"Identity provider (OpenID Connect) whose access tokens are accepted, with the scopes that they name. May be repeated."`
	OIDCAudience []string `name:"oidc-audience" placeholder:"NAME" help:"Audience of tokens for this server, in addition to its --public-url. May be repeated."`
	OIDCConfig   string   `name:"oidc-config" placeholder:"FILE" help:"YAML file with identity providers, each with its own rule for tenants, names and scopes; docs/security.md describes it."`
	OIDCClient   string   `name:"oidc-client" placeholder:"NAME" help:"Public client as which people log in to the console at each --oidc-issuer. The URL to which it may redirect is --public-url with a slash."`
	PublicURL    string   `name:"public-url" placeholder:"URL" help:"URL by which clients reach the server, and for which they get tokens, such as https://reprise.example.org. Default: the address that it listens on."`
}

// issuers are the providers that the flags name.
func (f *issuerFlags) issuers() ([]oidc.Issuer, error) {
	var issuers []oidc.Issuer
	for _, url := range f.OIDCIssuer {
		issuers = append(issuers, oidc.Issuer{URL: url, Audiences: f.OIDCAudience, ClientID: f.OIDCClient})
	}
	if f.OIDCConfig == "" {
		return issuers, nil
	}
	file, err := os.Open(f.OIDCConfig)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	more, err := oidc.ReadConfig(file)
	if err != nil {
		return nil, usage("--oidc-config %s: %w", f.OIDCConfig, err)
	}
	for i := range more {
		more[i].Audiences = append(more[i].Audiences, f.OIDCAudience...)
	}
	return append(issuers, more...), nil
}
