// Package sim holds no code but tests: a simulator of Logs that share a Store.
//
// One to five replicas, a primary store with a follower that lags, writers and readers run in one
// synctest bubble. Each call
// of the store stops at a gate. When the bubble is quiet, the seed chooses what goes on and how: a
// call that succeeds, fails
// before or after its effect, takes effect late or panics, a promotion that loses a suffix, a
// crash, a freeze, a cut. What
// the store did is the truth, and what the clients were told is compared with it; see docs/testing.md.
//
//	go test ./internal/sim -run Sim -seeds 1000        # seeds 1 to 1000
//	go test ./internal/sim -run Sim -seed 17 -v        # one of them, with its steps
//	go test ./internal/sim -run Repeats -seeds 100     # how often a seed repeats exactly
package sim
