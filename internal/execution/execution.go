package execution

import (
	"reprise/client"
	"reprise/internal/execution/command"
	"reprise/internal/wire"
)

// Execution describes one run of a command. It is the body of GET /v1/executions/{id}, except the links, which package
// api adds.
type Execution struct {
	client.Execution
	// Driver is the label of an interpreter, and Driven its progress while it runs.
	Driver string  `json:"-"`
	Driven *Driven `json:"-"`

	tail uint64 // of the stream when it was looked at
	size int64  // of what its stream keeps besides events
}

// The states of an execution, in this order.
const (
	StatusQueued  = client.StatusQueued
	StatusRunning = client.StatusRunning
	StatusEnded   = client.StatusEnded
)

// WaitingStorage: a bound on what streams keep is reached, and no ended stream is left that could make room. The output
// of the command is not read meanwhile, so that the command waits too.
const WaitingStorage = "storage"

// The outcomes; see package command.
const (
	Exited        = command.Exited
	Signaled      = command.Signaled
	TimedOut      = command.TimedOut
	Cancelled     = command.Cancelled
	LimitExceeded = command.LimitExceeded
	FailedToStart = command.FailedToStart
	Lost          = command.Lost
)

// The known facts about the command of an execution. Bytes counts the output that the stream was given, kept or not.
type (
	Outcome   = command.Outcome
	Usage     = command.Usage
	Bytes     = command.Bytes
	Isolation = command.Isolation
)

// Window is what the stream of an execution keeps; see package client.
type Window = client.Window

// Time is a time in JSON.
type Time = wire.Time
