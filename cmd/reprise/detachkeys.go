package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// defaultDetachKeys are the detach keys of similar tools.
const defaultDetachKeys = "ctrl-p,ctrl-q"

// detachPatience is how long a beginning of the detach keys is held back for the rest.
const detachPatience = time.Second

// detachKeys is a sequence of keys, each of which may be encoded in several forms.
type detachKeys [][][]byte

// parseDetachKeys parses keys such as "ctrl-p,ctrl-q" or "ctrl-],d". "none" means no keys.
func parseDetachKeys(text string) (detachKeys, error) {
	if text == "none" {
		return nil, nil
	}
	var keys detachKeys
	for name := range strings.SplitSeq(text, ",") {
		char, control := strings.CutPrefix(strings.ToLower(name), "ctrl-")
		if !control {
			char = name
		}
		if len(char) != 1 || char[0] <= ' ' || char[0] > '~' ||
			control && !strings.Contains("abcdefghijklmnopqrstuvwxyz@[\\]^_", char) {
			return nil, usage("--detach-keys %q: a key is a character, or ctrl- and a letter or one of @[\\]^_; \"none\" is no key",
				text)
		}
		if !control {
			keys = append(keys, [][]byte{[]byte(char)})
			continue
		}
		c := char[0]
		keys = append(keys, [][]byte{
			{c & 0x1f},
			// The encodings of terminals that report all keys distinctly: the protocol of kitty, and modifyOtherKeys of
			// xterm.
			fmt.Appendf(nil, "\x1b[%d;5u", c), fmt.Appendf(nil, "\x1b[27;5;%d~", c),
		})
	}
	return keys, nil
}

// String names the keys for people.
func (k detachKeys) String() string {
	names := make([]string, len(k))
	for i, forms := range k {
		names[i] = string(forms[0])
		if c := forms[0][0]; c < ' ' {
			names[i] = "Ctrl-" + string(c|0x40)
		}
	}
	return strings.Join(names, " ")
}

// match returns with how many of the keys typed begins, and the number of their bytes.
func (k detachKeys) match(typed []byte) (keys, size int) {
	for _, forms := range k {
		n := 0
		for _, form := range forms {
			if bytes.HasPrefix(typed[size:], form) {
				n = len(form)
			}
		}
		if n == 0 {
			break
		}
		keys, size = keys+1, size+n
	}
	return keys, size
}

// detector finds the detach keys in typed bytes.
type detector struct {
	keys detachKeys
	held []byte // the keys that may begin them
}

// take returns the bytes to pass on, of those held back and those typed now, and whether they ended with the detach
// keys.
func (d *detector) take(typed []byte) (pass []byte, detach bool) {
	typed = append(d.held, typed...)
	d.held = nil
	for i := 0; i < len(typed); i++ {
		keys, size := d.keys.match(typed[i:])
		switch {
		case keys > 0 && keys == len(d.keys):
			return typed[:i], true
		case keys > 0 && i+size == len(typed):
			d.held = bytes.Clone(typed[i:])
			return typed[:i], false
		}
	}
	return typed, false
}

// release returns the bytes that are held back.
func (d *detector) release() []byte {
	held := d.held
	d.held = nil
	return held
}
