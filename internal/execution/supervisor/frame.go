package supervisor

import (
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"time"

	"reprise/internal/execution/command"
)

// Frame is a chunk of the output of a command in a spool.
type Frame struct {
	// Index is 1 for the first frame and one more for each that follows.
	Index uint64
	// Before counts the output in all frames before this one.
	Before command.Bytes
	command.Chunk
}

// Version is the newest version of the spool and of the protocol of the socket.
const Version = 1

const (
	magic         = "REPSPOOL"
	segmentHeader = 16
	frameHeader   = 48
	// maxData is the most data of a frame.
	maxData = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendSegmentHeader appends the first bytes of a segment of the run in dir to b.
func appendSegmentHeader(b []byte, dir string) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, Version)
	return binary.LittleEndian.AppendUint32(b, runTag(dir))
}

// runTag tells the segments of a run from those that an earlier run has had in the same file: a crash of the machine
// may bring them back. It is not 0, which older segments have.
func runTag(dir string) uint32 {
	return max(1, crc32.Checksum([]byte(filepath.Base(dir)), castagnoli))
}

// isOfAnotherRun reports whether a segment that begins with header does not belong to the run in dir.
func isOfAnotherRun(header []byte, dir string) bool {
	tag := binary.LittleEndian.Uint32(header[len(magic)+4:])
	return tag != 0 && tag != runTag(dir)
}

// appendFrame appends the encoded frame to b.
func appendFrame(b []byte, f *Frame) []byte {
	begin := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Data)))
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, f.Index)
	b = binary.LittleEndian.AppendUint64(b, uint64(f.Time.UnixNano()))
	b = binary.LittleEndian.AppendUint64(b, uint64(f.Before.Stdout))
	b = binary.LittleEndian.AppendUint64(b, uint64(f.Before.Stderr))
	b = append(b, byte(f.Kind), 0, 0, 0, 0, 0, 0, 0)
	b = append(b, f.Data...)
	binary.LittleEndian.PutUint32(b[begin+4:], crc32.Checksum(b[begin+8:], castagnoli))
	return b
}

// frameLength returns the length of the frame whose header begins b; ok is false if the header is invalid.
func frameLength(b []byte) (n int, ok bool) {
	size := binary.LittleEndian.Uint32(b)
	return frameHeader + int(size), size <= maxData
}

// parseFrame decodes the frame that b is. The data lies in b. ok is false where its checksum does not hold.
func parseFrame(b []byte) (f Frame, ok bool) {
	if binary.LittleEndian.Uint32(b[4:]) != crc32.Checksum(b[8:], castagnoli) {
		return Frame{}, false
	}
	return Frame{
		Index: binary.LittleEndian.Uint64(b[8:]),
		Before: command.Bytes{
			Stdout: int64(binary.LittleEndian.Uint64(b[24:])),
			Stderr: int64(binary.LittleEndian.Uint64(b[32:])),
		},
		Chunk: command.Chunk{
			Time: time.Unix(0, int64(binary.LittleEndian.Uint64(b[16:]))),
			Kind: command.Kind(b[40]),
			Data: b[frameHeader:],
		},
	}, true
}
