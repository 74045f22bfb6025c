package remote_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/internal/archive/remote"
)

func stream() reprise.StreamInfo {
	at := time.UnixMilli(1700000000123).UTC()
	return reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: "default", Name: "builds/7"}, Epoch: "7ZK3M9Q2VTX4WB8A", Created: at,
		Earliest: 3, Tail: 5, End: &reprise.End{Time: at, Outcome: "completed"},
	}
}

func TestReadStreamIsInverseOfWriteStream(t *testing.T) {
	want := []reprise.Batch{
		{First: 3, Count: 2, Bytes: []byte("ab")},
		{First: 5, Count: 1, Bytes: bytes.Repeat([]byte("x"), 8<<10)},
	}
	var buf bytes.Buffer
	if err := remote.WriteStream(&buf, stream(), all(want, nil)); err != nil {
		t.Fatal(err)
	}
	whole := buf.Bytes()
	info, got, err := read(whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got) + cmp.Diff(stream().Key, info.Key) + cmp.Diff(stream().End, info.End); diff != "" {
		t.Error(diff)
	}
	for cut := range whole { // nothing that was cut off is taken for a whole stream
		if cut > 600 && cut < len(whole)-600 {
			continue
		}
		if _, _, err := read(whole[:cut]); !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

func TestWriteStreamReturnsErrorOfBatches(t *testing.T) {
	wrong := errors.New("torn")
	var buf bytes.Buffer
	if err := remote.WriteStream(&buf, stream(), all(nil, wrong)); !errors.Is(err, wrong) {
		t.Fatal(err)
	}
}

func TestProblemKeepsKind(t *testing.T) {
	for _, kind := range []error{reprise.ErrInvalid, reprise.ErrNotFound, reprise.ErrClosed, reprise.ErrUnavailable} {
		err := remote.ProblemOf(fmt.Errorf("%w: here", kind)).Err()
		if !errors.Is(err, kind) || err.Error() != kind.Error()+": here" {
			t.Errorf("%v became %v", kind, err)
		}
	}
	if err := remote.ProblemOf(errors.New("refused")).Err(); errors.Is(err, reprise.ErrUnavailable) {
		t.Error(err)
	}
}

func read(b []byte) (info reprise.StreamInfo, got []reprise.Batch, err error) {
	info, batches, err := remote.ReadStream(bytes.NewReader(b))
	if err != nil {
		return info, nil, err
	}
	for batch, err := range batches {
		if err != nil {
			return info, got, err
		}
		got = append(got, batch)
	}
	return info, got, nil
}

func all(batches []reprise.Batch, err error) func(func(reprise.Batch, error) bool) {
	return func(yield func(reprise.Batch, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
		if err != nil {
			yield(reprise.Batch{}, err)
		}
	}
}
