package tool

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// output keeps what a process writes to one of its streams, up to a limit.
type output struct {
	file  *os.File
	conn  syscall.RawConn
	limit int
	full  func() // is called when the process has written more; what follows is thrown away

	news  chan struct{} // has an element when something was read since it was last empty
	ended chan struct{} // closed when nothing more comes

	mu      sync.Mutex
	kept    []byte
	tooMuch bool
}

// newOutput returns an output, and the end of its process.
func newOutput(limit int) (o *output, theirs *os.File, err error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	conn, err := ours.SyscallConn()
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, nil, err
	}
	return &output{file: ours, conn: conn, limit: limit, news: make(chan struct{}, 1), ended: make(chan struct{})}, theirs, nil
}

// read reads until the last process has closed its end.
func (o *output) read() {
	defer close(o.ended)
	buf := make([]byte, 64<<10)
	for more := true; more; {
		err := o.conn.Read(func(fd uintptr) bool {
			var waits bool
			waits, more = o.readOnce(fd, buf)
			return !waits
		})
		more = more && err == nil
		select {
		case o.news <- struct{}{}:
		default:
		}
	}
}

// readOnce reads what is there now. Reading and keeping are one step, so that after drain nothing is
// under way.
func (o *output) readOnce(fd uintptr, buf []byte) (waits, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		n, err := syscall.Read(int(fd), buf) //nolint:gosec // a descriptor is an int
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return true, true
		case err != nil || n <= 0:
			return false, false
		}
		room := min(n, o.limit-len(o.kept))
		o.kept = append(o.kept, buf[:room]...)
		if room < n && !o.tooMuch {
			o.tooMuch = true
			o.full()
		}
		return false, true
	}
}

// drain reads what the process has written up to now.
func (o *output) drain() {
	buf := make([]byte, 64<<10)
	_ = o.conn.Control(func(fd uintptr) { // it fails when the output is closed: all is read then
		for waits, more := false, true; more && !waits && !o.over(); {
			waits, more = o.readOnce(fd, buf)
		}
	})
}

// over reports whether the process has written more than the limit.
func (o *output) over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tooMuch
}

// take returns what was kept since the last take.
func (o *output) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := o.kept
	o.kept = nil
	return kept
}

// takeAsked returns what stands before a prompt, if the process has printed one and waits: a prompt begins
// a line and ends the output.
func (o *output) takeAsked(prompt string) (text []byte, asked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, asked = bytes.CutSuffix(o.kept, []byte(prompt))
	if !asked || len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, false
	}
	o.kept = nil
	return text, true
}

// finish waits until nothing more comes, at most until the time: a process that has left its group may
// still hold the other end.
func (o *output) finish(until time.Time) {
	_ = o.file.SetReadDeadline(until) // a pipe has deadlines
	<-o.ended
	o.file.Close()
}
