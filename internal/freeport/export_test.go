package freeport

const (
	First = first
	Last  = last
)
