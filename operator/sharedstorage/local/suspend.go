package local

import (
	"context"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

// Suspend implements port.Instances. The folder of the instance stays, with its record in it.
func (i *Instances) Suspend(ctx context.Context, c port.Ref, name string) (port.Instance, error) {
	if err := check(name); err != nil {
		return port.Instance{}, err
	}
	var r *instanceRecord
	err := i.placement.locked(func() (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r, err = i.placement.load(c, name); err != nil {
			return err
		}
		if r == nil {
			return port.PodLost.Errorf("there is no instance %s", c.Of(name))
		}
		if !r.Leaving.IsZero() {
			return nil
		}
		if r.Suspend.IsZero() {
			r.Suspend = time.Now().UTC()
			if err := r.save(); err != nil {
				return err
			}
		}
		_, err = i.placement.end(r, r.Suspend)
		return err
	})
	if err != nil {
		return port.Instance{}, err
	}
	return i.placement.observe(ctx, r), nil
}

// resume lets an instance run that was suspended, and starts its agent if that does not run.
func (s *Placement) resume(r *instanceRecord) error {
	if !r.Suspend.IsZero() {
		if ended, err := s.end(r, r.Suspend); !ended || err != nil { // an agent that is ending would not start again
			return err
		}
		r.Suspend = time.Time{}
		if err := r.save(); err != nil {
			return err
		}
	}
	return s.launch(r)
}

// end ends the processes of an instance and reports whether none is left. Those that are still there
// stopGrace after since are killed.
func (s *Placement) end(r *instanceRecord, since time.Time) (ended bool, err error) {
	late := time.Since(since) > stopGrace
	if p := s.agent(r); p.Running() {
		if late {
			s.crash(r.folder)
		}
		return false, p.Signal(syscall.SIGTERM) // repeating it does no harm
	}
	if p := postgres.EngineOf(r.folder); p.Running() {
		if late {
			p.Kill()
		}
		return false, p.Signal(syscall.SIGINT)
	}
	return true, nil
}
