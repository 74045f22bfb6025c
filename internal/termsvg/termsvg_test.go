package termsvg_test

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"reprise/internal/termsvg"
)

// TestDraw: each row is shown for as long as it was on the screen, in its colours and places, and the last screen to
// the end.
func TestDraw(t *testing.T) {
	picture := string(termsvg.Draw([]termsvg.Frame{
		{Data: []byte("<one> & \x1b[31mred\x1b[0m\r\n")},
		{At: time.Second, Data: []byte("two")},
		{At: 3 * time.Second, Data: []byte("\r\x1b[1;32m漢three\x1b[0m")},
	}, &termsvg.Options{Cols: 20, Rows: 2, Title: `a "title"`, Hold: time.Second}))
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		`>&lt;one&gt; &amp;</text>`,
		`<text x="83.2" y="30" textLength="25.2" class="s31">red</text>`,
		`<text x="16" y="50" textLength="25.2">two</text>`,
		`<text x="16" y="50" textLength="58.8" class="s1 s32">漢three</text>`,
		`<title>a &#34;title&#34;</title>`,
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %s in\n%s", want, picture)
		}
	}
	for text, want := range map[string]string{ // the whole is 4.04 s
		"&lt;one&gt;": `0.00%{opacity:1}to{opacity:1}`,
		"two":         `0%{opacity:0}24.75%{opacity:1}74.26%{opacity:0}`,
		"漢three":      `0%{opacity:0}74.26%{opacity:1}to{opacity:1}`,
	} {
		if got := keyframes(t, picture, text); got != want {
			t.Errorf("%s is shown at %s, want %s", text, got, want)
		}
	}
}

// keyframes returns those of the group that has a text.
func keyframes(t *testing.T, picture, text string) string {
	t.Helper()
	group := regexp.MustCompile(`<g class="(k\d+)[^"]*">.*` + text).FindStringSubmatch(picture)
	if group == nil {
		t.Fatalf("no group has %s", text)
	}
	rule := regexp.MustCompile(`@keyframes ` + group[1] + `\{(.*)\}\n`).FindStringSubmatch(picture)
	if rule == nil {
		t.Fatalf("no keyframes %s", group[1])
	}
	return rule[1]
}
