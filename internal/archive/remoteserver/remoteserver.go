// Package remoteserver implements the program reprise-archive: it serves a bucket or a topic to its parent over the
// protocol of package remote.
package remoteserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"reprise"
	"reprise/internal/archive"
	"reprise/internal/archive/kafkaarchive"
	"reprise/internal/archive/remote"
	"reprise/internal/archive/s3archive"
)

// Main runs the program with the arguments args and returns its exit code. Its stdin and stdout are a connection to
// the reprise program that has started it.
func Main(args []string) int {
	if len(args) != 1 || args[0] != remote.ProtocolArgument {
		fmt.Fprintln(os.Stderr, "reprise-archive is started by reprise for archives s3:... and kafka:...; "+
			`see "reprise store archive --help"`)
		return 2
	}
	// A Ctrl-C reaches the parent too, which has work to do before its stdin pipe to us ends.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	conn := remote.NewConn(os.Stdin, os.Stdout)
	os.Stdout = os.Stderr // no library writes between the frames
	if err := serve(conn); err != nil {
		fmt.Fprintln(os.Stderr, "reprise-archive:", err)
		return 1
	}
	return 0
}

// serve reads the URL, says hello, and serves until the connection ends.
func serve(conn *remote.Conn) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	url, err := conn.ReadLine()
	if err != nil {
		return fmt.Errorf("no URL on stdin: %w", err)
	}
	begun := conn.Watch(stop) // the parent may end while open waits for a server
	s, err := open(ctx, strings.TrimSuffix(string(url), "\n"))
	if err != nil {
		_, err = conn.Write(remote.Line(remote.Hello{Protocol: remote.Protocol, Error: remote.ProblemOf(err)}))
		return err
	}
	server := &http.Server{Handler: s.routes(), Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan error, 1)
	if _, err = conn.Write(remote.Line(remote.Hello{Protocol: remote.Protocol})); err == nil {
		<-begun
		go func() { served <- server.Serve(remote.NewListener(conn)) }()
		<-conn.Closed()
		err = server.Close()
		<-served
	}
	return errors.Join(err, s.close())
}

// open opens the archive.
func open(ctx context.Context, url string) (*server, error) {
	s := &server{files: map[string]*openFile{}}
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "s3":
		bucket, err := s3archive.Open(ctx, url, nil)
		if err != nil {
			return nil, err
		}
		s.place, s.closers = bucket, append(s.closers, bucket)
	case "kafka":
		topic, err := kafkaarchive.Open(ctx, url, nil)
		if err != nil {
			return nil, err
		}
		s.sink, s.closers = topic, append(s.closers, topic)
	default:
		return nil, fmt.Errorf("%w: want s3: or kafka: and a place", reprise.ErrInvalid)
	}
	return s, nil
}

var (
	_ archive.Place = (*s3archive.Bucket)(nil)
	_ archive.Sink  = (*kafkaarchive.Topic)(nil)
)
