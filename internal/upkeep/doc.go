// Package upkeep measures, sweeps, checks and backs up a store, while a server uses it or in the place of one.
package upkeep
