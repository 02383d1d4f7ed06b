package sharedstorage

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// The times of a switch with poolers.
const (
	// poolersSettle is how long a switch waits for the transactions that run through the poolers. Those
	// that take longer end with the old writer, as without a pooler.
	poolersSettle = 3 * time.Second
	// sessionsSettle is the same in mode session, where a client has its connection as long as it likes.
	sessionsSettle = 200 * time.Millisecond
	// poolersPausedFor is when a pooler lets clients go on although nobody has resumed it.
	poolersPausedFor = 30 * time.Second
	// pollPaused is how often a switch polls while the clients of poolers wait.
	pollPaused = 100 * time.Millisecond
)

// pooled reports whether a switch pauses poolers.
func (o *Operator) pooled(c *Cluster) bool {
	return o.options.Ports.Pooler != nil && c.Spec.Pooler != nil
}

// soon returns how often a switch polls.
func (w *work) soon() time.Duration {
	if w.in.Pooled {
		return pollPaused
	}
	return pollSoon
}

// pausePoolers makes the clients of the poolers wait. A pooler that does not answer stops no switch: its
// clients reconnect.
func pausePoolers(ctx context.Context, w *work) outcome.Outcome {
	name, skip, err := w.candidate()
	if err != nil || skip || w.promoted(name) || !w.o.pooled(w.c) {
		return outcome.Fail(err)
	}
	settle := poolersSettle
	if w.c.Spec.Pooler.Mode == port.SessionPooling {
		settle = sessionsSettle
	}
	if err := w.call(ctx, func(ctx context.Context) error {
		return w.ports().Pooler.Pause(ctx, w.ref, settle, poolersPausedFor)
	}); err != nil {
		w.t.Logger().Warn("not all poolers are paused", "error", err)
	}
	return outcome.Done()
}

// resumePoolers lets the clients of the poolers go on at the writer there is.
func resumePoolers(ctx context.Context, w *work) outcome.Outcome {
	w.resume(ctx)
	return outcome.Done()
}

// resume does not fail: what does not resume now does so in the next pass over the cluster at rest, or
// by itself at the limit of its pause.
func (w *work) resume(ctx context.Context) {
	if !w.o.pooled(w.c) {
		return
	}
	writer := w.f.Volume.Writer
	if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Pooler.Resume(ctx, w.ref, writer) }); err != nil {
		w.t.Logger().Warn("not all poolers go on", "error", err)
	}
}

// poolers makes the poolers as the spec wants them, and sends clients to the present writer: after a
// failover, too.
func (t *repairer) poolers() {
	if t.o.options.Ports.Pooler == nil || !t.f.known(factPoolers) {
		return
	}
	if t.c.Spec.Pooler == nil {
		if len(t.f.Poolers) > 0 {
			t.do("remove the poolers", func(ctx context.Context) error {
				return t.o.options.Ports.Pooler.Ensure(ctx, t.c.Ref, port.PoolerSpec{})
			})
		}
		return
	}
	writer := t.f.writer()
	if writer == nil {
		return
	}
	want := t.c.poolerSpec()
	want.Writer = writer.Name
	fits, paused := len(t.f.Poolers) == want.Instances, false
	for _, p := range t.f.Poolers {
		paused = paused || p.Paused
		fits = fits && p.Ready && (p.TLS && p.Identity != "" || t.f.certificate == nil) && p.Settings == want.Settings.Hash() && p.Writer == net.JoinHostPort(writer.Address, strconv.Itoa(int(writer.Port)))
	}
	if !fits {
		t.do("the poolers", func(ctx context.Context) error { return t.o.options.Ports.Pooler.Ensure(ctx, t.c.Ref, want) })
	}
	if paused {
		t.do("let the clients of the poolers go on", func(ctx context.Context) error {
			return t.o.options.Ports.Pooler.Resume(ctx, t.c.Ref, writer.Name)
		})
	}
}

func (o *Operator) removePoolers(ctx context.Context, c *Cluster) error {
	if o.options.Ports.Pooler == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*o.options.CallTimeout)
	defer cancel()
	return port.Guard(func() error { return o.options.Ports.Pooler.Ensure(ctx, c.Ref, port.PoolerSpec{}) })
}

// poolerSpec returns the poolers of the spec, which has some.
func (c *Cluster) poolerSpec() port.PoolerSpec {
	s := c.Spec.Pooler
	return port.PoolerSpec{Instances: max(1, int(s.Instances)), Image: s.Image, Settings: poolerSettings(s)}
}

func poolerSettings(s *v1alpha1.PoolerSpec) port.PoolerSettings {
	return port.PoolerSettings{Mode: s.Mode, MaxClients: int(s.MaxClientConnections), PoolSize: int(s.DefaultPoolSize), Parameters: s.Parameters}
}

// CheckPooler returns SPEC_INVALID for a spec.pooler that cannot be; nil is none.
func CheckPooler(s *v1alpha1.PoolerSpec) error {
	if s == nil {
		return nil
	}
	if s.Instances < 0 || s.Instances > 10 {
		return SpecInvalid.Errorf("pooler.instances: %d is not within 1 and 10", s.Instances)
	}
	if err := poolerSettings(s).Check(); err != nil {
		return SpecInvalid.Errorf("pooler.%w", err)
	}
	return nil
}

func (c *Cluster) computePoolers() {
	if !c.Facts.known(factPoolers) {
		return
	}
	c.Status.Poolers = nil
	for _, p := range c.Facts.Poolers {
		st := v1alpha1.PoolerStatus{Name: p.Name, Address: p.Address, Port: p.Port, Health: string(Healthy), Writer: p.Writer, Message: p.Message}
		switch {
		case p.Paused:
			st.Health = "Paused"
		case !p.Ready:
			st.Health = string(Starting)
		}
		c.Status.Poolers = append(c.Status.Poolers, st)
	}
}
