// Package remoteserver implements the program reprise-archive: it serves a bucket or a topic to its parent over the
// protocol of package remote.
package remoteserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"reprise"
	"reprise/internal/archive"
	"reprise/internal/archive/kafkaarchive"
	"reprise/internal/archive/remote"
	"reprise/internal/archive/s3archive"
)

// Main runs the program with the arguments args, which are the path of the socket, and returns its exit code.
func Main(args []string) int {
	if len(args) != 1 || !filepath.IsAbs(args[0]) {
		fmt.Fprintln(os.Stderr, "reprise-archive is started by reprise for archives s3:... and kafka:...; "+
			`see "reprise store archive --help"`)
		return 2
	}
	// A Ctrl-C reaches the parent too, which has work to do before its stdin pipe to us ends.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := serve(args[0], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reprise-archive:", err)
		return 1
	}
	return 0
}

// serve reads the URL from stdin, says hello to stdout, and serves until stdin ends.
func serve(socket string, stdin io.Reader, stdout io.Writer) error {
	defer os.RemoveAll(filepath.Dir(socket))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	lines := bufio.NewReader(stdin)
	url, err := lines.ReadString('\n')
	if err != nil {
		return fmt.Errorf("no URL on stdin: %w", err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer stop() // an Open that waits for a server
		_, _ = io.Copy(io.Discard, lines)
	}()
	s, err := open(ctx, strings.TrimSuffix(url, "\n"))
	if err != nil {
		_, err = stdout.Write(remote.Line(remote.Hello{Protocol: remote.Protocol, Error: remote.ProblemOf(err)}))
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return errors.Join(err, s.close())
	}
	server := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if _, err := stdout.Write(remote.Line(remote.Hello{Protocol: remote.Protocol})); err == nil {
		<-over
	}
	err = server.Close()
	<-served
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
