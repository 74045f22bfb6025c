package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"
)

// TestOutputThatIsThereIsRead: a process that had no time itself until the time for a read was over reads what has come
// meanwhile, and neither splits a rune nor stops before the end.
func TestOutputThatIsThereIsRead(t *testing.T) {
	near, far, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	defer far.Close()
	p := &pump{file: near}
	buf := make([]byte, 10)
	read := func() (string, error) {
		_ = near.SetReadDeadline(time.Now().Add(-time.Second))
		n, err := p.read(buf)
		return string(buf[:n]), err
	}
	if _, err := far.WriteString("there"); err != nil {
		t.Fatal(err)
	}
	if got, err := read(); got != "there" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := read(); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("where nothing is there: %q, %v", got, err)
	}
	if err := far.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := read(); got != "" || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %q, %v", got, err)
	}
}

// TestPumpStopsWhileItsChannelIsWritten: a process that cannot be killed prints without a pause.
func TestPumpStopsWhileItsChannelIsWritten(t *testing.T) {
	near, far, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	var writing, storing sync.WaitGroup
	writing.Go(func() {
		for page := make([]byte, 4096); ; {
			if _, err := far.Write(page); err != nil {
				return // nobody reads any more
			}
		}
	})
	s := newSpool(1 << 20)
	storing.Go(func() { _ = s.drain(&Output{Write: func([]Chunk) error { return nil }}) })
	p := &pump{kind: Stdout, file: near, spool: s, admit: func(n int) int { return n }}
	p.finish()
	p.run()
	if !p.cut {
		t.Error("the channel is said to be read to its end")
	}
	_ = near.Close()
	writing.Wait()
	_ = far.Close()
	s.close()
	storing.Wait()
}

// TestStderrWaitsForStdoutThatIsNotPumpedYet: a command has greeted on stdout and asked on stderr before the pump of
// stdout has begun, and half of a character is there.
func TestStderrWaitsForStdoutThatIsNotPumpedYet(t *testing.T) {
	s := newSpool(1 << 20)
	var pumps [2]*pump
	for i, text := range []string{"welcome \xc3", "> "} {
		near, far, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer near.Close()
		defer far.Close()
		if _, err := far.WriteString(text); err != nil {
			t.Fatal(err)
		}
		pumps[i] = &pump{
			kind: []Kind{Stdout, Stderr}[i], file: near, spool: s, admit: func(n int) int { return n },
		}
	}
	inOrder(pumps[0], pumps[1])
	pumps[1].finish()
	pumps[1].run()
	pumps[0].finish()
	pumps[0].run()
	s.close()
	var got string
	if err := s.drain(&Output{Write: func(chunks []Chunk) error {
		for _, c := range chunks {
			got += fmt.Sprintf("%d:%s;", c.Kind, c.Data)
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if want := "2:welcome ;3:> ;2:\xc3;"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
