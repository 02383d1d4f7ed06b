package measure

import (
	"context"
	"sync/atomic"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// counting counts durable writes and hears of ended runs: the moment a Save
// with a final phase returns is the moment its client is notified.
type counting struct {
	runstore.Store
	writes atomic.Int64
	bytes  atomic.Int64
	ended  func(id string)
}

// claiming is counting for stores that are claimed from.
type claiming struct {
	*counting
	runstore.Claimer
	runstore.Lister
	runstore.Definitions
}

func (b *Bench) wrap() runstore.Store {
	b.count.ended = func(id string) {
		b.mu.Lock()
		c := b.ended[id]
		delete(b.ended, id)
		b.mu.Unlock()
		if c != nil {
			close(c)
		}
	}
	type full interface {
		runstore.Claimer
		runstore.Lister
		runstore.Definitions
	}
	if f, ok := b.store.(full); ok {
		return claiming{b.count, f, f, f}
	}
	return b.count
}

func (c *counting) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	c.writes.Add(1)
	return c.Store.Create(ctx, r, events)
}

func (c *counting) Save(ctx context.Context, s *runstore.Save) error {
	c.writes.Add(1)
	err := c.Store.Save(ctx, s)
	if err == nil && (s.Run.Phase.Final() || s.Run.Phase == runtype.Waiting) {
		c.ended(s.Run.ID)
	}
	return err
}

func (c *counting) Send(ctx context.Context, id string, s runtype.Signal) error {
	c.writes.Add(1)
	return c.Store.Send(ctx, id, s)
}
