//go:build !unix

package httpserver

func openFiles() int { return fallbackFiles }
