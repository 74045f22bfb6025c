package clienttest

import "testing"

// A service may read either the URL and the stream of a command or its source.
func TestSourceOfACommandIsItsStream(t *testing.T) {
	c := followCommand("127.0.0.1:1", "", "s", func(c *Command) { c.Stream, c.Types = "other", []string{"a", "b"} })
	if want := "http://127.0.0.1:1/v1/streams/other/events?types=a,b"; c.Source != want {
		t.Errorf("the source is %s, want %s", c.Source, want)
	}
}
