package execution

import (
	"fmt"

	"reprise"
)

// The channels of an execution, which are the types of its output events.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Output is one channel of an execution as it was when Host.Output was called:
// the exact bytes from First to Size.
type Output struct {
	stream  *reprise.Stream
	channel string
	first   int64
	size    int64
	ended   bool
}

// First is the offset of the first byte that is kept. It is not 0 where the
// window of the stream has lost the beginning.
func (o *Output) First() int64 { return o.first }

// Size is the offset just after the last byte.
func (o *Output) Size() int64 { return o.size }

// Ended reports whether the execution had ended, so that Size is final.
func (o *Output) Ended() bool { return o.ended }

// LostError is returned for bytes of a channel that are no longer kept. It
// wraps reprise.ErrExpired.
type LostError struct {
	Channel string
	// Asked is the offset asked for and First that of the first byte kept.
	Asked, First int64
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s: byte %d is no longer kept, the first one kept is %d", e.Channel, e.Asked, e.First)
}

// Unwrap returns reprise.ErrExpired.
func (e *LostError) Unwrap() error { return reprise.ErrExpired }
