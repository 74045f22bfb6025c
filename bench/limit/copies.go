package limit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The three programs of a command's output that outlives its server, each with nothing but its copies: Spool in the
// place of a supervisor, Relay in that of a server, and Show in that of a client. A frame in the spool is its length, a
// checksum, and data; a frame on the connection is one of an event stream, with the data as JSON.

const (
	spoolData = 32 << 10
	spoolHead = 8
	// spoolRead is how much is read from the spool at a time.
	spoolRead = 512 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Spool appends what comes to a file, and tells after each write how long the file is: 8 bytes, little-endian.
func Spool(from io.Reader, path string, told io.Writer) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	read := make(chan []byte, 4)
	free := make(chan []byte, cap(read))
	for range cap(read) {
		free <- make([]byte, 256<<10)
	}
	go func() {
		defer close(read)
		for {
			b := <-free
			n, err := from.Read(b[:cap(b)])
			read <- b[:n]
			if err != nil {
				return
			}
		}
	}()
	var frames []byte
	var end [8]byte
	size := uint64(0)
	for b := range read {
		frames = frames[:0]
		for rest := b; len(rest) > 0; {
			data := rest[:min(spoolData, len(rest))]
			rest = rest[len(data):]
			frames = binary.LittleEndian.AppendUint32(frames, uint32(len(data)))
			frames = binary.LittleEndian.AppendUint32(frames, crc32.Checksum(data, castagnoli))
			frames = append(frames, data...)
		}
		free <- b
		if _, err := file.WriteAt(frames, int64(size)); err != nil {
			return err
		}
		size += uint64(len(frames))
		binary.LittleEndian.PutUint64(end[:], size)
		if _, err := told.Write(end[:]); err != nil {
			return err
		}
	}
	return nil
}

var errChecksum = errors.New("a frame with another checksum")

// Relay copies the frames of a spool to a log, which it syncs once at the end, and sends them.
func Relay(told io.Reader, spool, log string, to io.Writer) error {
	in, err := os.Open(spool)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	wires, failed := make(chan []byte, 4), make(chan error, 1)
	free := make(chan []byte, cap(wires))
	for range cap(free) {
		free <- nil
	}
	go func() {
		var err error
		for wire := range wires {
			if err == nil {
				_, err = to.Write(wire)
			}
			free <- wire[:0]
		}
		failed <- err
	}()
	var end [8]byte
	buf := make([]byte, spoolRead)
	seq := uint64(0)
	for at := int64(0); ; {
		if _, err := io.ReadFull(told, end[:]); err != nil {
			break
		}
		for size := int64(binary.LittleEndian.Uint64(end[:])); at < size; {
			part := buf[:min(spoolRead, size-at)]
			if _, err := in.ReadAt(part, at); err != nil {
				return err
			}
			wire, n, err := encodeSpool(<-free, part, &seq)
			if err != nil {
				return err
			}
			_ = crc32.Checksum(part[:n], castagnoli) // of what is logged
			if _, err := out.WriteAt(part[:n], at); err != nil {
				return err
			}
			at += int64(n)
			wires <- wire
		}
	}
	close(wires)
	return errors.Join(unix.Fdatasync(int(out.Fd())), <-failed)
}

// encodeSpool appends the whole frames of part as events, and returns how many bytes they take in the spool.
func encodeSpool(wire, part []byte, seq *uint64) (_ []byte, n int, err error) {
	for n+spoolHead <= len(part) {
		end := n + spoolHead + int(binary.LittleEndian.Uint32(part[n:]))
		if end > len(part) {
			break
		}
		data := part[n+spoolHead : end]
		if crc32.Checksum(data, castagnoli) != binary.LittleEndian.Uint32(part[n+4:]) {
			return nil, 0, errChecksum
		}
		*seq++
		wire = strconv.AppendUint(append(wire, "id: "...), *seq, 10)
		wire = append(wire, "\nevent: stdout\ndata: {\"data\":\""...)
		for len(data) > 0 {
			var line []byte
			var whole bool
			line, data, whole = bytes.Cut(data, []byte{'\n'})
			wire = append(wire, line...)
			if whole {
				wire = append(wire, `\n`...)
			}
		}
		wire = append(wire, "\"}\n\n"...)
		n = end
	}
	return wire, n, nil
}

// Show writes the data of the events.
func Show(from io.Reader, to io.Writer) error {
	lines := bufio.NewReaderSize(from, 256<<10)
	var out []byte
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			_, writeErr := to.Write(out)
			return errors.Join(writeErr, notEOF(err))
		}
		data, ok := bytes.CutPrefix(line, []byte(`data: {"data":"`))
		if !ok {
			continue
		}
		data = bytes.TrimSuffix(data, []byte("\"}\n"))
		for len(data) > 0 {
			var text []byte
			var whole bool
			text, data, whole = bytes.Cut(data, []byte(`\n`))
			out = append(out, text...)
			if whole {
				out = append(out, '\n')
			}
		}
		if len(out) > 128<<10 {
			if _, err := to.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
