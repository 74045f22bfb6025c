package console_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"reprise/internal/oidctest"
)

// TestCookieIsOfNoUseElsewhere: a program on another port of the host gets the cookie of the console from the browser,
// and can do nothing with it.
func TestCookieIsOfNoUseElsewhere(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	p.text("Nothing has run yet")
	stolen := make(chan string, 1)
	other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case stolen <- r.Header.Get("Cookie"):
		default: // a request for an icon
		}
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	go func() { _ = other.Serve(listener) }()
	defer other.Close()
	p.another(600, 400).visit("http://" + listener.Addr().String() + "/")
	cookie := <-stolen
	if !strings.Contains(cookie, "reprise_login=") {
		t.Fatalf("the browser sends %q to the other port: this test shows nothing", cookie)
	}
	for _, path := range []string{"/v1/executions", "/v1/streams", "/v1/store", "/metrics"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		check(t, err)
		r.Header.Set("Cookie", cookie)
		answer, err := http.DefaultClient.Do(r)
		check(t, err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s with the stolen cookie: %s", path, answer.Status)
		}
	}
	if stored := p.eval(`JSON.stringify([sessionStorage, localStorage, document.cookie])`).(string); strings.Contains(
		stored, s.token,
	) {
		t.Errorf("the page keeps the token: %s", stored)
	}
	p.clean(s.url)
}

// TestPersonLogsInAtProvider: the page sends a person to the identity provider and is logged in when they come back, on
// the page that they wanted; neither its address nor what it keeps has a token, and an answer that this tab has not
// asked for counts for nothing.
func TestPersonLogsInAtProvider(t *testing.T) {
	t.Parallel()
	provider := oidctest.New(t)
	s := startServer(t, "--oidc-issuer", provider.URL, "--oidc-client", oidctest.Client)
	provider.Redirect, provider.Audience, provider.Scope = s.url+"/", s.url, "read run control"
	name := strings.TrimPrefix(provider.URL, "http://")
	p := startBrowser(t).open(t, 1280, 800)

	p.visit(s.url + "/?code=of-an-attacker&state=s#/streams")
	p.text("No login was begun here")
	if at := p.eval("location.href"); at != s.url+"/#/streams" {
		t.Errorf("the address is still %v", at)
	}
	p.click("button", "Log in with "+name)
	p.text("Log out")
	p.until(fmt.Sprintf("location.href === %q", s.url+"/#/streams"))
	kept := p.eval(`JSON.stringify([sessionStorage, localStorage, document.cookie, location.href])`).(string)
	if strings.Contains(kept, "eyJ") || strings.Contains(kept, "flow") {
		t.Errorf("the page keeps %s", kept)
	}
	p.click("button", "Log out")
	p.text("Token or API key")
	provider.Deny.Store(true)
	p.click("button", "Log in with "+name)
	p.text("The identity provider has not logged you in")
	p.text("access_denied")
}

// TestTabsShareTheLogin: a tab that the person opens is logged in while another one is, and one that logs out or in
// takes the others along.
func TestTabsShareTheLogin(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	first := s.login(startBrowser(t), 1280, 800, "")
	first.text("Nothing has run yet")
	second := first.another(900, 600)
	second.visit(s.url + "/")
	second.text("Nothing has run yet")
	first.close()
	second.reload() // it has the secret itself
	second.text("Nothing has run yet")
	third := second.another(900, 600)
	third.visit(s.url + "/")
	third.text("Nothing has run yet")
	third.click("button", "Log out")
	third.until(`document.querySelector("input[type=password]")`)
	second.until(`document.querySelector("input[type=password]")`)
	second.fill("input[type=password]", s.token)
	second.press("Enter")
	second.text("Nothing has run yet")
	third.text("Nothing has run yet")
	second.close()
	third.close()
	last := second.another(900, 600)
	last.visit(s.url + "/")
	last.until(`document.querySelector("input[type=password]")`) // the cookie alone is not enough
	last.clean(s.url)
}

// TestAddressWithATokenAsks: the page says whom the address logs in, and does not replace a login by itself.
func TestAddressWithATokenAsks(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	made := s.call("POST", "/v1/keys", map[string]any{
		"name": "mallory", "tenant": "elsewhere", "scopes": []string{"read", "run"},
	})
	key, mallory := made["key"].(string), "mallory."+made["id"].(string)
	links := 0
	link := func(token string) string {
		links++ // an address that differs behind the "#" alone loads no page
		return fmt.Sprintf("%s/?%d#token=%s", s.url, links, url.QueryEscape(token))
	}
	p := startBrowser(t).open(t, 1280, 800)
	p.visit(link(key))
	p.text("logs you in as " + mallory + " of the tenant elsewhere")
	if address := p.eval("location.href").(string); strings.Contains(address, "token") {
		t.Errorf("the token stays in the address %s", address)
	}
	if cookies := p.cookies(); len(cookies) != 0 {
		t.Errorf("it has logged in: %v", cookies)
	}
	p.click("button", "Do not log in by it")
	p.fill("input[type=password]", s.token)
	p.press("Enter")
	p.text("Nothing has run yet")
	before := p.cookies()

	other := p.another(1280, 800)
	other.visit(link(key))
	other.text("You are logged in as token of the tenant default")
	other.text("logs you in as " + mallory + " of the tenant elsewhere")
	other.click("button", "Stay logged in as token")
	other.text("Nothing has run yet")
	if after := p.cookies(); len(before) != 1 || len(after) != 1 || after[0] != before[0] {
		t.Errorf("the login was replaced: %v, and before %v", after, before)
	}
	other.visit(link(s.token)) // there is nothing to ask
	other.text("Nothing has run yet")
	other.visit(link("wrong-wrong-wrong-wrong"))
	other.text("The token in the address is not the token of this server.")
	other.click("button", "Stay logged in as token")

	s.run("x", "echo of-default", nil)
	p.text("of-default")
	other.visit(link(key))
	other.click("button", "Log in as mallory")
	other.text("Nothing has run yet")
	p.text("Nothing has run yet") // it shows nothing of the login of before
	p.clean(s.url)
	other.clean(s.url)
}

// TestOutputIsDownloaded: the buttons save what the command wrote, which a link with the cookie alone cannot get.
func TestOutputIsDownloaded(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	s.run("wrote", "printf 'a\\0b'; echo err >&2", nil)
	s.ended("wrote")
	p.eval(`location.hash = "#/executions/wrote"`)
	p.eval(`window.links = []; HTMLAnchorElement.prototype.click = function () { links.push([this.href, this.download]) }`)
	p.click("button", "stdout")
	p.until("links.length === 1")
	if name := p.eval("links[0][1]"); name != "wrote.stdout" {
		t.Errorf("the file is called %v", name)
	}
	address := p.eval("links[0][0]").(string)
	answer, err := http.Get(address)
	check(t, err)
	defer answer.Body.Close()
	got := make([]byte, 8)
	n, _ := answer.Body.Read(got)
	if answer.StatusCode != 200 || string(got[:n]) != "a\x00b" {
		t.Errorf("%s: %s %q", address, answer.Status, got[:n])
	}
	p.clean(s.url)
}

// cookies are the values of the cookies that the browser has for the page.
func (p *page) cookies() []string {
	p.Helper()
	var got struct {
		Cookies []struct{ Value string } `json:"cookies"`
	}
	check(p, json.Unmarshal(p.call("Network.getCookies", nil), &got))
	var values []string
	for _, cookie := range got.Cookies {
		values = append(values, cookie.Value)
	}
	return values
}

// TestLoginThatHasEnded: a person whose key is revoked is told why they see the login again.
func TestLoginThatHasEnded(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	made := s.call("POST", "/v1/keys", map[string]any{"name": "guest", "scopes": []string{"read"}})
	admin := s.token
	s.token = made["key"].(string)
	p := s.login(startBrowser(t), 1280, 800, "#/executions")
	p.text("Nothing has run yet")
	s.token = admin
	s.call("DELETE", "/v1/keys/"+made["id"].(string), nil)
	p.text("Your login has ended: ")
	p.text("the credential was revoked")
	p.clean(s.url)
}
