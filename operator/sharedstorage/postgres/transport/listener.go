package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// firstByteLimit is how long a connection may take for its first byte.
const firstByteLimit = 5 * time.Second

const recordHandshake = 0x16 // the first byte of a connection that begins with TLS

var errNoCertificate = errors.New("this process has no certificate yet")

// listener accepts connections once their first byte has come.
type listener struct {
	net.Listener
	config *tls.Config

	accepted chan net.Conn
	failed   chan error
	closed   chan struct{}
	close    sync.Once

	mu      sync.Mutex
	waiting map[net.Conn]struct{} // for their first byte
}

// NewListener returns a listener whose connections are *tls.Conn if the client begins with a handshake, and
// plain otherwise. A connection without a byte holds up no other one.
func NewListener(l net.Listener, f *Folder) net.Listener {
	own := &listener{
		Listener: l, accepted: make(chan net.Conn), failed: make(chan error), closed: make(chan struct{}), waiting: map[net.Conn]struct{}{},
		config: &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if pair := f.Certificate(); pair != nil {
				return pair, nil
			}
			return nil, errNoCertificate
		}},
	}
	go own.serve()
	return own
}

func (l *listener) serve() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			// A server that lacks files or memory waits and accepts again; it closes the listener after other errors.
			select {
			case l.failed <- err:
			case <-l.closed:
				return
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		go l.classify(conn)
	}
}

func (l *listener) classify(conn net.Conn) {
	l.mu.Lock()
	l.waiting[conn] = struct{}{}
	l.mu.Unlock()
	first := make([]byte, 1)
	err := conn.SetReadDeadline(time.Now().Add(firstByteLimit))
	if err == nil {
		_, err = conn.Read(first)
	}
	l.mu.Lock()
	delete(l.waiting, conn)
	l.mu.Unlock()
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close() // it has said nothing
		return
	}
	conn = &peeked{Conn: conn, first: first}
	if first[0] == recordHandshake {
		conn = tls.Server(conn, l.config)
	}
	select {
	case l.accepted <- conn:
	case <-l.closed:
		_ = conn.Close() // nobody serves it
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case err := <-l.failed:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	l.mu.Lock()
	for conn := range l.waiting {
		_ = conn.Close() // as above
	}
	l.mu.Unlock()
	return l.Listener.Close()
}

// peeked is a connection whose first byte was read already.
type peeked struct {
	net.Conn
	first []byte
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) > 0 && len(b) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
