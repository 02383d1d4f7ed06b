package controlplane

import (
	"io"
	"sync"
	"time"
)

// delayed reads a watch at full speed, and forwards it with the delay of the proxy.
func (x *Proxy) delayed(body io.ReadCloser) io.ReadCloser {
	l := &delayedWatch{x: x, body: body, arrived: make(chan struct{}, 1), closed: make(chan struct{})}
	x.mu.Lock()
	if x.open == nil {
		x.open = map[*delayedWatch]bool{}
	}
	x.open[l] = true
	x.mu.Unlock()
	go l.fill()
	return l
}

// delayedWatch is a delayed watch.
type delayedWatch struct {
	x    *Proxy
	body io.ReadCloser

	mu      sync.Mutex
	chunks  []chunk
	err     error
	arrived chan struct{} // signals a new chunk or the end

	once   sync.Once
	closed chan struct{}
}

type chunk struct {
	at   time.Time
	data []byte
}

func (l *delayedWatch) fill() {
	for {
		data := make([]byte, 32<<10)
		n, err := l.body.Read(data)
		l.mu.Lock()
		if n > 0 {
			l.chunks = append(l.chunks, chunk{time.Now(), data[:n]})
		}
		l.err = err
		l.mu.Unlock()
		select {
		case l.arrived <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader.
func (l *delayedWatch) Read(p []byte) (int, error) {
	for {
		l.x.mu.Lock()
		lag, frozen := l.x.lag, l.x.frozen
		l.x.mu.Unlock()
		l.mu.Lock()
		wait := time.Hour
		switch {
		case len(l.chunks) == 0 && l.err != nil:
			defer l.mu.Unlock()
			return 0, l.err
		case len(l.chunks) > 0:
			wait = min(time.Until(l.chunks[0].at.Add(lag)), 20*time.Millisecond) // the delay may change
			if frozen {
				wait = 20 * time.Millisecond
			}
			if wait <= 0 {
				n := copy(p, l.chunks[0].data)
				if l.chunks[0].data = l.chunks[0].data[n:]; len(l.chunks[0].data) == 0 {
					l.chunks = l.chunks[1:]
				}
				l.mu.Unlock()
				return n, nil
			}
		}
		l.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-l.arrived:
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			return 0, io.ErrClosedPipe
		}
		timer.Stop()
	}
}

// breakOff lets the next Read fail.
func (l *delayedWatch) breakOff() { l.once.Do(func() { close(l.closed) }) }

// Close implements io.Closer.
func (l *delayedWatch) Close() error {
	l.breakOff()
	l.x.mu.Lock()
	delete(l.x.open, l)
	l.x.mu.Unlock()
	return l.body.Close()
}
