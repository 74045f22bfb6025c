package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"reprise"
)

// CopyLines writes lines of the file, of which the first is 1, from a number on, without their ends and with LF between
// them. It writes at most so many lines if most is not negative.
func (c *Content) CopyLines(w io.Writer, first, most int) error {
	in := bufio.NewReaderSize(io.NewSectionReader(c, 0, c.File.Size), chunk)
	out := bufio.NewWriterSize(w, chunk)
	if err := copyLines(out, in, first, most); err != nil {
		return err
	}
	return out.Flush()
}

// copyLines is CopyLines without the Flush.
func copyLines(out *bufio.Writer, in *bufio.Reader, first, most int) error {
	for number := 1; most < 0 || number < first+most; number++ {
		begun, ended := false, false
		for !ended {
			piece, err := in.ReadSlice('\n')
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
				return err
			}
			if len(piece) == 0 && !begun {
				return nil // the file is over
			}
			ended = !errors.Is(err, bufio.ErrBufferFull)
			if number >= first {
				if !begun && number > first {
					_ = out.WriteByte('\n')
				}
				if ended {
					piece = bytes.TrimRight(piece, "\r\n")
				}
				_, _ = out.Write(piece) // Flush has the error
			}
			begun = true
		}
	}
	return nil
}

// Replace replaces text in a file wherever it is, and returns how often. The file keeps its mode. The error wraps
// reprise.ErrConflict if the file has, or would have, more than maxBytes.
func (r *Roots) Replace(ctx context.Context, p, old, with string, maxBytes int64) (n int, err error) {
	content, err := r.Content(ctx, p)
	if err != nil {
		return 0, err
	}
	defer content.Close()
	size := content.File.Size
	tooLarge := fmt.Errorf("%w: %q has more than %d bytes", reprise.ErrConflict, p, maxBytes)
	if size > maxBytes {
		return 0, tooLarge
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(content, 0, size), text); err != nil {
		return 0, err
	}
	if n = bytes.Count(text, []byte(old)); n == 0 {
		return 0, nil
	}
	if size += int64(n) * int64(len(with)-len(old)); size > maxBytes {
		return 0, tooLarge
	}
	text = bytes.ReplaceAll(text, []byte(old), []byte(with))
	_, err = r.Write(ctx, Upload{Path: p, Offset: -1, Size: size}, bytes.NewReader(text))
	return n, err
}
