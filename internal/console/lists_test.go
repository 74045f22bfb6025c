package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestWebhooks: a webhook is made, tested, given another secret and removed by a person; a secret is shown once.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[string]
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct {
			Type string `json:"type"`
		}
		_ = json.NewDecoder(r.Body).Decode(&message) // another body has no type
		got.Store(&message.Type)
	}))
	t.Cleanup(receiver.Close)
	s := startServer(t, "--webhook-allow", "127.0.0.1")
	p := s.login(startBrowser(t), 1280, 800, "#/webhooks")
	p.text("No webhooks yet")
	p.click("button", "New webhook")
	p.fill("input[name=url]", "nowhere")
	p.press("Enter")
	p.until(`document.querySelector(".problem-code").textContent.includes("invalid")`)
	p.fill("input[name=url]", receiver.URL+"/hook")
	p.press("Enter")
	p.text("is shown this once")
	secret := p.eval(`document.querySelector(".secret").textContent`).(string)
	if !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("the secret is %q", secret)
	}
	p.click("[aria-label='Dismiss the secret']", "")
	p.until(`!document.body.innerText.includes("whsec_")`)
	p.fill("[aria-label='Search webhooks']", "no such")
	p.text("Nothing matches")
	p.fill("[aria-label='Search webhooks']", "ends of runs")
	p.click(".webhooks a", "/hook")
	p.click("button", "Send a test")
	p.text("The receiver has taken the test message: 200")
	if kind := got.Load(); kind == nil || *kind != "webhook.test" {
		t.Errorf("the receiver was sent %v", kind)
	}
	p.click("button", "New secret")
	p.text("is shown this once")
	if again := p.eval(`document.querySelector(".secret").textContent`); again == secret {
		t.Error("the secret has not changed")
	}
	s.run("told", "true", nil)
	s.ended("told")
	p.text("1 message of 1")
	receiver.Close()
	p.click("button", "Send a test")
	p.text("The test failed")
	p.click("button", "Remove")
	p.click("button", "Remove for good")
	p.text("No webhooks yet")
	p.clean(s.url)
}

// TestSchedules: a schedule is made, starts a run, is paused, goes on and is removed.
func TestSchedules(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "#/schedules")
	p.text("No schedules yet")
	p.click("button", "New schedule")
	p.fill("input[name=command]", "echo by the clock")
	p.fill("input[name=cron]", "never")
	p.press("Enter")
	p.until(`document.querySelector(".problem-code").textContent.includes("cron")`)
	p.fill("input[name=cron]", "@every 2s")
	p.press("Enter")
	p.click(".schedules a", "echo by the clock")
	p.text("started")
	p.click("button", "Pause")
	p.text("paused")
	p.click("button", "Go on")
	p.text("next ")
	p.click(".slots a", "")
	p.output("by the clock")
	p.eval(`location.hash = "#/schedules"`)
	p.fill("[aria-label='Search schedules']", "no such")
	p.text("Nothing matches")
	p.fill("[aria-label='Search schedules']", "@every")
	p.click(".schedules a", "echo by the clock")
	p.click("button", "Remove")
	p.click("button", "Remove for good")
	p.text("No schedules yet")
	p.clean(s.url)
}

// TestScheduleWhoseRunsFail: a schedule is not "on" because its runs could be started: the newest one that has ended
// counts, and each is a dot.
func TestScheduleWhoseRunsFail(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "#/schedules")
	for _, program := range []string{"/no/such/program", "false", "true"} {
		s.call("POST", "/v1/schedules", map[string]any{
			"cron": "@every 1s", "execution": map[string]any{"argv": []string{program}},
		})
	}
	row := func(program string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".schedules .row")].find(r => r.querySelector(".cell-command")?.innerText === %q)`,
			program)
	}
	p.until(row("true") + `?.querySelectorAll(".runs .tone-good").length >= 2`)
	p.until(row("true") + `.querySelector(".state").innerText === "on"`)
	for _, program := range []string{"/no/such/program", "false"} {
		p.until(row(program) + `?.querySelectorAll(".runs .tone-bad").length >= 2`)
		p.until(row(program) + `.querySelector(".state").innerText === "failing"`)
	}
	p.clean(s.url)
}

// TestLoginThatMayOnlyRead: pages say why they are empty to somebody who may not see what is on them, and limits are
// shown to everybody.
func TestLoginThatMayOnlyRead(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--limit-principal", "running=7")
	key := s.call("POST", "/v1/keys", map[string]any{"name": "reader", "scopes": []string{"read"}})["key"].(string)
	s.token = key
	p := s.login(startBrowser(t), 1280, 800, "#/webhooks")
	for _, view := range []struct{ hash, scope string }{{"#/webhooks", "control"}, {"#/schedules", "run"}} {
		p.eval(fmt.Sprintf("location.hash = %q", view.hash))
		p.until(fmt.Sprintf(`document.querySelector(".problem").innerText.includes(%q)`, view.scope))
		p.text("Your login may not do this.")
	}
	p.eval(`location.hash = "#/server"`)
	p.text("the scope admin, which this login does not have")
	p.text("0 of 7")
	p.until(`!document.querySelector(".problem")`)
	p.clean(s.url)
}
