package main

// takeOverFlag stands for the flag of other systems.
type takeOverFlag struct{}

func (*takeOverFlag) takesOver() bool { return false }
