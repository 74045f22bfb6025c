package detach_test

import (
	"testing"

	"reprise/cmd/reprise/internal/detach"
)

func TestDetachKeys(t *testing.T) {
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "Ctrl-P Ctrl-Q", "ctrl-]": "Ctrl-]", "~,.": "~ .", "none": "",
	} {
		keys, err := detach.ParseKeys(text)
		if err != nil || keys.String() != want {
			t.Errorf("%q: %q, %v", text, keys, err)
		}
	}
	for _, text := range []string{"", "ctrl-", "ctrl-1", "ctrl-pq", "ab", "ctrl-p, ctrl-q", "\x10"} {
		if _, err := detach.ParseKeys(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	keys, err := detach.ParseKeys(detach.DefaultKeys)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		typed    []string
		pass     string
		detached bool
	}{
		{[]string{"abc"}, "abc", false},
		{[]string{"ab\x10\x11cd"}, "ab", true},
		{[]string{"a\x10", "\x11"}, "a", true},
		{[]string{"a\x10", "b"}, "a\x10b", false},
		{[]string{"\x10\x10", "\x11"}, "\x10", true},
		{[]string{"\x1b"}, "\x1b", false}, // an escape that begins nothing is not held back
		{[]string{"\x1b[112;5u", "\x1b[113;5u"}, "", true},
		{[]string{"\x1b[27;5;112~\x11"}, "", true},
		{[]string{"\x10", "\x1b[A"}, "\x10\x1b[A", false},
	} {
		d := &detach.Detector{Keys: keys}
		var pass []byte
		detached := false
		for _, typed := range c.typed {
			p, end := d.Take([]byte(typed))
			pass, detached = append(pass, p...), detached || end
		}
		if string(pass) != c.pass || detached != c.detached {
			t.Errorf("%q passes %q, %v", c.typed, pass, detached)
		}
	}
}
