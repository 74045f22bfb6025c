// Command reprise-archive gives the reprise program archives in buckets (s3:) and in topics of Apache Kafka (kafka:).
// reprise starts it, and finds it in its own folder. It is a program of its own because the clients of both are large:
// nobody who needs no such archive compiles them.
package main

import (
	"os"

	"reprise/internal/archive/remoteserver"
)

func main() { os.Exit(remoteserver.Main(os.Args[1:])) }
