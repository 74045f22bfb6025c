// Package bytesize reads and writes sizes such as "64MiB".
package bytesize

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Size is a number of bytes. Its text is a number, and KiB, MiB, GiB or TiB, of which the first letter is enough.
type Size int64

// UnmarshalText reads a text such as "64MiB".
func (n *Size) UnmarshalText(text []byte) error {
	number := strings.TrimRight(string(text), "KMGTiB")
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a size such as 64MiB", text)
	}
	shift, ok := shifts[string(text[len(number):])]
	if !ok || bits.Len64(uint64(v))+shift > 63 {
		return fmt.Errorf("%q is not a size such as 64MiB", text)
	}
	*n = Size(v << shift)
	return nil
}

var shifts = map[string]int{
	"": 0, "B": 0, "K": 10, "KiB": 10, "M": 20, "MiB": 20, "G": 30, "GiB": 30, "T": 40, "TiB": 40,
}

// String writes n for people, such as "1.5 KiB".
func (n Size) String() string {
	unit, v := 0, float64(n)
	for ; v >= 1024 && unit < 4; unit++ {
		v /= 1024
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", int64(n))
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[unit-1])
}
