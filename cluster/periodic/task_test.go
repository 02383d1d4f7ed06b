package periodic

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/lock"
)

// process records the passes of a periodic task in one process.
type process struct {
	mu     sync.Mutex
	passes []time.Time
	cut    int // passes whose context ended
	took   time.Duration
	stop   func()
}

func (p *process) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.passes)
}

func (p *process) cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// startTask runs a periodic task with one part until stop.
func startTask(t *testing.T, name string, backend lock.Backend, took time.Duration) *process {
	p := &process{took: took}
	d := &Task{Name: "test", Parts: []string{"sim"}, Every: 30 * time.Second, Locks: backend, Owner: name, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Pass: func(ctx context.Context, _ string) error {
		p.mu.Lock()
		p.passes = append(p.passes, time.Now())
		p.mu.Unlock()
		select {
		case <-time.After(p.took):
			return errors.New("a pass may fail")
		case <-ctx.Done():
			p.mu.Lock()
			p.cut++
			p.mu.Unlock()
			return ctx.Err()
		}
	}}
	ctx, end := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	p.stop = func() { end(); wg.Wait() }
	return p
}

func TestATaskIsDoneAtOnceAndThenAtItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startTask(t, "a", nil, time.Second)
		began := time.Now()
		synctest.Wait()
		if p.count() != 1 {
			t.Errorf("%d passes right after the start", p.count())
		}
		time.Sleep(time.Hour)
		p.stop()
		if n := p.count(); n < 105 || n > 130 {
			t.Errorf("%d passes in an hour", n)
		}
		for i, at := range p.passes[1:] {
			if gap := at.Sub(p.passes[i]); gap < 28*time.Second || gap > 34*time.Second+time.Second {
				t.Fatalf("pass %d, %s in, came %s behind the one before", i+1, at.Sub(began), gap)
			}
		}
	})
}

// Only one of several processes works on a part, however short its passes are.
// When it ends, another one takes over.
func TestOneProcessHoldsATaskLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &lock.Memory{}
		a := startTask(t, "a", backend, time.Second)
		synctest.Wait()
		b := startTask(t, "b", backend, time.Second)
		time.Sleep(time.Hour)
		if b.count() != 0 || a.count() < 100 {
			t.Errorf("a %d passes, b %d", a.count(), b.count())
		}
		a.stop()
		time.Sleep(12 * time.Second)
		if b.count() != 1 {
			t.Errorf("b has not taken over: %d passes", b.count())
		}
		b.stop()
	})
}

// A process that cannot renew its lease ends its pass before the lease expires.
func TestALostLockEndsThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &cuttable{Memory: &lock.Memory{}}
		a := startTask(t, "a", backend, time.Hour)
		synctest.Wait()
		time.Sleep(10 * time.Minute)
		if a.cuts() != 0 || a.count() != 1 {
			t.Fatalf("a pass of an hour: cut %d, %d passes", a.cuts(), a.count())
		}
		backend.set(true)
		b := startTask(t, "b", backend.Memory, time.Second)
		time.Sleep(50 * time.Second)
		if a.cuts() != 1 {
			t.Error("the pass goes on without its lock")
		}
		if b.count() == 0 {
			t.Error("nobody has taken over")
		}
		a.stop()
		b.stop()
	})
}

// cuttable is a lock backend that can be disconnected.
type cuttable struct {
	*lock.Memory
	mu  sync.Mutex
	off bool
}

func (c *cuttable) set(off bool) { c.mu.Lock(); c.off = off; c.mu.Unlock() }

func (c *cuttable) Transact(ctx context.Context, name string, change func(time.Time, []byte) ([]byte, bool)) error {
	c.mu.Lock()
	off := c.off
	c.mu.Unlock()
	if off {
		return errors.New("the database is away")
	}
	return c.Memory.Transact(ctx, name, change)
}
