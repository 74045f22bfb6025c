package main

import (
	"regexp"
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"reprise/internal/isolation"
)

// TestRunAsNamesUsers: --run-as names one user for all commands, and one for those of each tenant.
func TestRunAsNamesUsers(t *testing.T) {
	var c isolation.Config
	good := isolationFlags{RunAs: []string{"a=root", "root", "b=0"}}
	if err := good.users(&c); err != nil {
		t.Fatal(err)
	}
	if c.User == nil || len(c.Users) != 2 || c.Users["a"].Name != "root" || c.Users["b"].Name != "root" {
		t.Errorf("%+v", c)
	}
	other := isolation.Config{
		User: &isolation.User{Name: "all"}, Users: map[string]*isolation.User{"a": {Name: "theirs"}},
	}
	if of, _ := other.For("a"); of.User.Name != "theirs" {
		t.Errorf("commands of a run as %s", of.User.Name)
	}
	if of, _ := other.For("b"); of.User.Name != "all" {
		t.Errorf("commands of b run as %s", of.User.Name)
	}
	for _, bad := range [][]string{
		{"=root"}, {"a="}, {""}, {"a=no-such-user"}, {"no-such-user"}, {"root", "root"}, {"a=root", "a=root"},
	} {
		flags := isolationFlags{RunAs: bad}
		if err := flags.users(&isolation.Config{}); err == nil {
			t.Errorf("--run-as %q is taken", bad)
		}
	}
}

// TestSecretPathsNameWhatServerKeeps: the archive holds the output of all tenants, as the store does.
func TestSecretPathsNameWhatServerKeeps(t *testing.T) {
	c := &serveCmd{}
	c.Data, c.Secrets, c.TLSKey = "/data", "/secrets", "/tls/key"
	c.Config, c.OIDCConfig, c.TLSClientCA = "/etc/config", "/etc/issuers", "/tls/clients"
	c.Store.url = "sqlite:/db/events"
	for url, want := range map[string]bool{
		"file:/archive": true, "file:///archive": true, "s3://archive": false, "": false,
	} {
		c.Archive = url
		paths := c.secretPaths()
		if got := slices.Contains(paths, "/archive"); got != want {
			t.Errorf("--archive %q: %q", url, paths)
		}
		for _, path := range []string{
			"/data", "/secrets", "/tls/key", "/db/events", "/db/events-wal", "/etc/config",
			"/etc/issuers", "/tls/clients",
		} {
			if !slices.Contains(paths, path) {
				t.Errorf("%s is not among %q", path, paths)
			}
		}
	}
}

// hiddenFlags are the flags of serve that name files, directories or stores, with whether commands are kept from what
// they name. A new flag has to be put here, and into secretPaths if commands may not have it.
var hiddenFlags = map[string]bool{
	"config": true, "data": true, "store": true, "store-keys": true, "archive": true, "secrets": true,
	"oidc-config": true,
	"tls-key":     true, "tls-client-ca": true, "hide": true,
	"tls-cert": false, "oidc-issuer": false, "public-url": false, "otlp-endpoint": false, // everybody may know them
	"readable": false, "writable": false, "files": false, // for commands and clients
	"face": false, "relay": false, // paths of URLs
}

// TestEachFlagWithAPathIsHiddenOrNot walks the flags of serve.
func TestEachFlagWithAPathIsHiddenOrNot(t *testing.T) {
	parser := kong.Must(new(cli), kong.Vars{"state": "x", "gatewayState": "x", "parking": "true"})
	command, err := parser.Parse([]string{"serve"})
	check(t, err)
	names := regexp.MustCompile(`FILE|DIR|PATH|URL|SOCKET`)
	seen := map[string]bool{}
	for _, flag := range command.Flags() {
		if !names.MatchString(flag.PlaceHolder) {
			continue
		}
		seen[flag.Name] = true
		if _, known := hiddenFlags[flag.Name]; !known {
			t.Errorf("--%s %s is not in hiddenFlags: are commands kept from what it names?", flag.Name,
				flag.PlaceHolder)
		}
	}
	for name := range hiddenFlags {
		if !seen[name] {
			t.Errorf("serve has no flag --%s with a path", name)
		}
	}
}
