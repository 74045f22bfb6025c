package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"

	"golang.org/x/time/rate"
)

// eachLine calls f for the lines of r, without their ends, until r ends. The line is valid until f returns. Of one that is longer than
// limit only the beginning is given, and cut is true.
func eachLine(r io.Reader, limit int, f func(line []byte, cut bool)) {
	in := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	for {
		piece, err := in.ReadSlice('\n')
		whole := err == nil
		if whole && long == nil && len(piece) <= limit+1 {
			f(bytes.TrimRight(piece, "\r\n"), false)
			continue
		}
		cut := len(long)+len(piece) > limit+1
		long = append(long, piece[:min(len(piece), limit+1-min(limit+1, len(long)))]...)
		for cut && errors.Is(err, bufio.ErrBufferFull) { // the rest is for nobody
			_, err = in.ReadSlice('\n')
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(long) > 0 {
			f(bytes.TrimRight(long, "\r\n"), cut)
		}
		long = nil
		if err != nil {
			return
		}
	}
}

// What an upstream can make us log: a burst of lines, then some in a second, each of so many bytes.
const (
	logBurst     = 100
	logPerSecond = 10
	maxLogged    = 2 << 10
)

// bounded logs what an upstream has said, so much of it. It is not safe for concurrent use.
type bounded struct {
	logger  *slog.Logger
	level   slog.Level
	message string
	limit   *rate.Limiter
	left    int // lines that were left out
}

func newBounded(logger *slog.Logger, level slog.Level, message string) *bounded {
	return &bounded{logger: logger, level: level, message: message, limit: rate.NewLimiter(logPerSecond, logBurst)}
}

func (b *bounded) line(text []byte) {
	if !b.limit.Allow() {
		b.left++
		return
	}
	b.flush()
	more := max(0, len(text)-maxLogged)
	if more > 0 {
		b.logger.Log(context.Background(), b.level, b.message, "text", string(text[:maxLogged]), "more_bytes", more)
		return
	}
	b.logger.Log(context.Background(), b.level, b.message, "text", string(text))
}

// flush says how many lines were left out.
func (b *bounded) flush() {
	if b.left > 0 {
		b.logger.Warn(b.message+": lines were left out", "lines", b.left)
		b.left = 0
	}
}
