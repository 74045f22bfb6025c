// Package procfs finds processes in /proc, what they use, and what they were started with, and signals exactly these.
package procfs
