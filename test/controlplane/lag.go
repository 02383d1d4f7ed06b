package controlplane

import (
	"io"
	"sync"
	"time"
)

// slow reads a watch as fast as it comes, and gives it on as late as the proxy says.
func (x *Proxy) slow(body io.ReadCloser) io.ReadCloser {
	l := &lagging{x: x, body: body, news: make(chan struct{}, 1), closed: make(chan struct{})}
	go l.fill()
	return l
}

// lagging is a watch behind its time.
type lagging struct {
	x    *Proxy
	body io.ReadCloser

	mu     sync.Mutex
	pieces []piece
	err    error
	news   chan struct{} // there is a new piece, or an end

	once   sync.Once
	closed chan struct{}
}

type piece struct {
	at   time.Time
	data []byte
}

func (l *lagging) fill() {
	for {
		data := make([]byte, 32<<10)
		n, err := l.body.Read(data)
		l.mu.Lock()
		if n > 0 {
			l.pieces = append(l.pieces, piece{time.Now(), data[:n]})
		}
		l.err = err
		l.mu.Unlock()
		select {
		case l.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader.
func (l *lagging) Read(p []byte) (int, error) {
	for {
		l.x.mu.Lock()
		lag, frozen := l.x.lag, l.x.frozen
		l.x.mu.Unlock()
		l.mu.Lock()
		wait := time.Hour
		switch {
		case len(l.pieces) == 0 && l.err != nil:
			defer l.mu.Unlock()
			return 0, l.err
		case len(l.pieces) > 0:
			wait = min(time.Until(l.pieces[0].at.Add(lag)), 20*time.Millisecond) // the lag may change
			if frozen {
				wait = 20 * time.Millisecond
			}
			if wait <= 0 {
				n := copy(p, l.pieces[0].data)
				if l.pieces[0].data = l.pieces[0].data[n:]; len(l.pieces[0].data) == 0 {
					l.pieces = l.pieces[1:]
				}
				l.mu.Unlock()
				return n, nil
			}
		}
		l.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-l.news:
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			return 0, io.ErrClosedPipe
		}
		timer.Stop()
	}
}

// Close implements io.Closer.
func (l *lagging) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.body.Close()
}
