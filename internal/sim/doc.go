// Package sim holds no code but tests: a simulator of Logs that share a Store.
//
// One to five replicas, a primary store with a lagging follower, writers and readers run in one synctest bubble. Each
// call of the store stops at a gate. When the bubble is quiet, the seed chooses what continues and how: a call that
// succeeds, fails before or after its effect, takes effect late or panics; a promotion that loses a suffix; a crash; a
// freeze; a cut connection. The effects on the store are the truth, with which the results of the clients are compared;
// see docs/internals/testing.md.
//
//	go test ./internal/sim -run Sim -seeds 1000        # seeds 1 to 1000
//	go test ./internal/sim -run Sim -seed 17 -v        # one of them, with its steps
//	go test ./internal/sim -run Repeats -seeds 100     # how often a seed repeats exactly
package sim
