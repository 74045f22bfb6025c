package link

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"

	"golang.org/x/time/rate"
)

// eachLine calls f for each line of r, without its end, until r ends. The line is valid until f returns. A line
// longer than limit is cut to its beginning, and cut is true.
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
		for cut && errors.Is(err, bufio.ErrBufferFull) { // skip the rest
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

// Limits on the log output of an upstream: burst of lines, lines per second, and bytes per line.
const (
	logBurst     = 100
	logPerSecond = 10
	maxLogged    = 2 << 10
)

// boundedLog logs lines of an upstream within these bounds. It is not safe for concurrent use.
type boundedLog struct {
	logger  *slog.Logger
	level   slog.Level
	message string
	limit   *rate.Limiter
	left    int // lines that were left out
}

func newBoundedLog(logger *slog.Logger, level slog.Level, message string) *boundedLog {
	return &boundedLog{logger: logger, level: level, message: message, limit: rate.NewLimiter(logPerSecond, logBurst)}
}

func (b *boundedLog) line(text []byte) {
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

// flush logs the number of dropped lines.
func (b *boundedLog) flush() {
	if b.left > 0 {
		b.logger.Warn(b.message+": lines were left out", "lines", b.left)
		b.left = 0
	}
}
