// Package detach finds the keys that leave a command alone among those that are typed.
package detach

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// DefaultKeys are the detach keys of similar tools.
const DefaultKeys = "ctrl-p,ctrl-q"

// Patience is how long a beginning of the detach keys is held back for the rest.
const Patience = time.Second

// Keys is a sequence of keys. Each may be encoded in several forms.
type Keys [][][]byte

// ParseKeys parses keys such as "ctrl-p,ctrl-q" or "ctrl-],d". "none" means no keys.
func ParseKeys(text string) (Keys, error) {
	if text == "none" {
		return nil, nil
	}
	var keys Keys
	for name := range strings.SplitSeq(text, ",") {
		char, control := strings.CutPrefix(strings.ToLower(name), "ctrl-")
		if !control {
			char = name
		}
		if len(char) != 1 || char[0] <= ' ' || char[0] > '~' ||
			control && !strings.Contains("abcdefghijklmnopqrstuvwxyz@[\\]^_", char) {
			return nil, fmt.Errorf("%q: a key is a character, or ctrl- and a letter or one of @[\\]^_; \"none\" is no key",
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
func (k Keys) String() string {
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
func (k Keys) match(typed []byte) (keys, size int) {
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

// Detector finds the detach keys in typed bytes.
type Detector struct {
	Keys Keys
	held []byte // the keys that may begin them
}

// Take returns the bytes to pass on, of those held back and those typed now, and whether they ended with the detach
// keys.
func (d *Detector) Take(typed []byte) (pass []byte, detach bool) {
	typed = append(d.held, typed...)
	d.held = nil
	for i := 0; i < len(typed); i++ {
		keys, size := d.Keys.match(typed[i:])
		switch {
		case keys > 0 && keys == len(d.Keys):
			return typed[:i], true
		case keys > 0 && i+size == len(typed):
			d.held = bytes.Clone(typed[i:])
			return typed[:i], false
		}
	}
	return typed, false
}

// Release returns the bytes that are held back.
func (d *Detector) Release() []byte {
	held := d.held
	d.held = nil
	return held
}
