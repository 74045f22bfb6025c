package mcphttp_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what the transcripts in testdata should be")

// TestTranscriptsOfWireTraffic: what goes over the wire, byte for byte but for what is random. A file "N.request" is
// sent, "N.response" is what comes back; "N.drop" reads up to the line that it holds and closes the connection,
// "N.release" opens a gate. In requests, $session and $id are the newest session and event id that were seen.
func TestTranscriptsOfWireTraffic(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txtar")
	check(t, err)
	if len(files) == 0 {
		t.Fatal("no transcripts")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { transcribe(t, file) })
		})
	}
}

func transcribe(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	check(t, err)
	p := &player{fixture: newFixture(t, setup{}), names: map[string]string{}}
	for i := 0; i < len(archive.Files); i++ {
		f := &archive.Files[i]
		step, kind, _ := strings.Cut(f.Name, ".")
		switch kind {
		case "release":
			p.tools.release(strings.TrimSpace(string(f.Data)))
			synctest.Wait()
			continue
		case "request":
		default:
			t.Fatalf("%s: %s is no step", file, f.Name)
		}
		until := ""
		if i+1 < len(archive.Files) && archive.Files[i+1].Name == step+".drop" {
			i++
			until = strings.TrimSpace(string(archive.Files[i].Data))
		}
		got := p.play(t, string(f.Data), until)
		if i+1 == len(archive.Files) || archive.Files[i+1].Name != step+".response" {
			if !*update {
				t.Fatalf("%s: step %s has no response", file, step)
			}
			archive.Files = append(archive.Files[:i+1],
				append([]txtar.File{{Name: step + ".response"}}, archive.Files[i+1:]...)...)
		}
		i++
		if want := archive.Files[i].Data; string(want) != got && !*update {
			t.Errorf("%s, step %s: got\n%s\nwant\n%s", file, step, got, want)
		}
		archive.Files[i].Data = []byte(got)
	}
	if *update {
		check(t, os.WriteFile(file, txtar.Format(archive), 0o644))
	}
}

// player sends the requests of a transcript.
type player struct {
	*fixture
	session, id string
	names       map[string]string // what is random, by what stands for it
}

// play sends a request as it stands and returns the response, up to and with the line until.
func (p *player) play(t *testing.T, request, until string) string {
	request = strings.NewReplacer("$session", p.session, "$id", p.id).Replace(request)
	head, body, _ := strings.Cut(request, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	raw := strings.ReplaceAll(head, "\n", "\r\n") + fmt.Sprintf("\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
		len(body)) + body
	conn, err := p.pipes.dial(context.Background(), "", "")
	check(t, err)
	defer conn.Close()
	go func(c net.Conn) { _, _ = io.WriteString(c, raw) }(conn)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(t, err)
	var text bytes.Buffer
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		fmt.Fprintln(&text, in.Text())
		if until != "" && strings.Contains(in.Text(), until) {
			break
		}
	}
	_ = conn.Close()
	synctest.Wait()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		p.session = id
	}
	for _, id := range regexp.MustCompile(`(?m)^id: (.+)$`).FindAllStringSubmatch(text.String(), -1) {
		p.id = id[1]
	}
	return p.plain(headOf(res) + "\n" + text.String())
}

// headOf is the head of a response without what is the same in all of them.
func headOf(res *http.Response) string {
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %s\n", res.Status)
	res.Header.Del("Date")
	res.Header.Del("Connection")
	_ = res.Header.Write(&head)
	return strings.ReplaceAll(head.String(), "\r\n", "\n")
}

// plain replaces what is random by names that count up.
func (p *player) plain(text string) string {
	for _, random := range []struct {
		what string
		is   *regexp.Regexp
	}{
		{"SESSION", regexp.MustCompile(`\b[A-Z2-7]{26}\b`)},
		{"CURSOR", regexp.MustCompile(`\b[0-9A-Z]{16}\.[0-9A-Z]{13}\b`)},
		{"STREAM", regexp.MustCompile(`\b[A-Z2-7]{13}\b`)},
	} {
		text = random.is.ReplaceAllStringFunc(text, func(s string) string {
			if p.names[s] == "" {
				n := 1
				for _, name := range p.names {
					if strings.HasPrefix(name, random.what) {
						n++
					}
				}
				p.names[s] = fmt.Sprint(random.what, n)
			}
			return p.names[s]
		})
	}
	return text
}
