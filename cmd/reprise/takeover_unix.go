//go:build unix

package main

// takeOverFlag makes a server take over from another one.
type takeOverFlag struct {
	TakeOver bool `env:"-" help:"Take over the socket of the server that has the data directory open. That server then stops as at TERM, and its commands keep running. No connection is refused during the change, and --listen is ignored. If there is no such server, this one starts as usual."`
}

func (f *takeOverFlag) takesOver() bool { return f.TakeOver }
