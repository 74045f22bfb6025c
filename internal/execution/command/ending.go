package command

import "reprise/internal/wire"

// The known facts about a command.
type (
	Ending    = wire.Ending
	Outcome   = wire.Outcome
	Usage     = wire.Usage
	Bytes     = wire.Bytes
	Isolation = wire.Isolation
)

// The outcomes. Exited with a code other than 0 is still Exited. Cancelled, TimedOut and LimitExceeded are given when
// that was decided before the process ended, however it then took it. Lost is a command whose process cannot be found
// again.
const (
	Exited        Outcome = "exited"
	Signaled      Outcome = "signaled"
	TimedOut      Outcome = "timed_out"
	Cancelled     Outcome = "cancelled"
	LimitExceeded Outcome = "limit_exceeded"
	FailedToStart Outcome = "failed_to_start"
	Lost          Outcome = "lost"
)

// Count adds n bytes of chunks of the kind to b.
func (k Kind) Count(b *Bytes, n int) {
	switch k {
	case Stdout:
		b.Stdout += int64(n)
	case Stderr:
		b.Stderr += int64(n)
	case Started:
	}
}
