package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// proxy passes connections on to a server and cuts them: each after so many bytes of
// answers, and all when it is told to. A cut is a reset, as from a middlebox.
type proxy struct {
	listener net.Listener
	target   string
	limit    int64 // of bytes to the client; negative is none

	mu    sync.Mutex
	front string // what new connections are answered with in place of the server's answer; "refuse" is nothing
	conns map[net.Conn]bool
	cuts  int
	wg    sync.WaitGroup
}

func newProxy(target string, limit int64) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, target: target, limit: limit, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.pass(client) })
	}
}

// pass carries one connection until either side or the limit ends it.
func (p *proxy) pass(client net.Conn) {
	p.mu.Lock()
	front := p.front
	p.mu.Unlock()
	if front != "" {
		p.answer(client, front)
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	p.mu.Lock()
	p.conns[client] = true
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	var answers io.Reader = server
	if p.limit >= 0 {
		answers = io.LimitReader(server, p.limit)
	}
	n, _ := io.Copy(client, answers)
	if n == p.limit {
		p.mu.Lock()
		p.cuts++
		p.mu.Unlock()
	}
	p.mu.Lock()
	delete(p.conns, client)
	p.mu.Unlock()
	reset(client)
	server.Close()
}

// answer gives a bare status, as something in front of the server does.
func (p *proxy) answer(client net.Conn, status string) {
	defer client.Close()
	if status == "refuse" {
		reset(client)
		return
	}
	if _, err := http.ReadRequest(bufio.NewReader(client)); err == nil {
		_, _ = fmt.Fprintf(client, "HTTP/1.1 %s Front\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
	}
}

// setFront changes what new connections are answered with; "off" lets them through.
func (p *proxy) setFront(front string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.front = front; front == "off" {
		p.front = ""
	}
}

// cut cuts all connections there are.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client := range p.conns {
		reset(client)
		p.cuts++
	}
}

func (p *proxy) close() {
	p.listener.Close()
	p.cut()
	p.wg.Wait()
}

// reset closes a connection so that what was not read yet is lost.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}
