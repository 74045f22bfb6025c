//go:build !unix

package freeport

func reserve(int) bool { return true }
