package command

import "bytes"

// mask is what stands in output in place of a secret.
const mask = "***"

// masker replaces secrets in one channel of output, even if they arrive in pieces: the possible beginning of a secret
// is held back until more data arrives or the output ends.
type masker struct {
	secrets [][]byte
	held    []byte
}

func newMasker(secrets []string) *masker {
	if len(secrets) == 0 {
		return nil
	}
	m := &masker{}
	for _, s := range secrets {
		m.secrets = append(m.secrets, []byte(s))
	}
	return m
}

// feed returns the output that is complete after more data. It is valid until the next call.
func (m *masker) feed(data []byte) []byte {
	return m.replace(append(m.held, data...), false)
}

// rest returns the held-back output at the end.
func (m *masker) rest() []byte { return m.replace(m.held, true) }

func (m *masker) replace(data []byte, last bool) []byte {
	out := make([]byte, 0, len(data))
	for {
		at, length := m.find(data)
		begins := -1
		if !last {
			begins = m.beginning(data)
		}
		switch {
		case begins >= 0 && (at < 0 || begins <= at): // a longer one may come, of which that is a part
			m.held = bytes.Clone(data[begins:])
			return append(out, data[:begins]...)
		case at < 0:
			m.held = nil
			return append(out, data...)
		}
		out = append(append(out, data[:at]...), mask...)
		data = data[at+length:]
	}
}

// find returns the position of the first secret in data, the longest one at that position; at is -1 if there is none.
func (m *masker) find(data []byte) (at, length int) {
	at = -1
	for _, s := range m.secrets {
		if i := bytes.Index(data, s); i >= 0 && (at < 0 || i < at || i == at && len(s) > length) {
			at, length = i, len(s)
		}
	}
	return at, length
}

// beginning returns the earliest index from which data is the beginning of a secret, or -1 if there is none.
func (m *masker) beginning(data []byte) int {
	earliest := -1
	for _, s := range m.secrets {
		from := max(0, len(data)-len(s)+1)
		for {
			i := bytes.IndexByte(data[from:], s[0])
			if i < 0 || earliest >= 0 && from+i >= earliest {
				break
			}
			if from += i; bytes.HasPrefix(s, data[from:]) {
				earliest = from
				break
			}
			from++
		}
	}
	return earliest
}
