package sharedstorage

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// view is what a status is computed from, besides facts and spec.
type view struct {
	position machine.Position
	run      *runtype.Run // run of the visit; nil: there is none, or it was not read
	out      outcome.Outcome
	moved    bool // the status is written together with a move
}

// compute sets the status from position and facts. From the former status it keeps what cannot be
// observed (NextID, requests, ParametersHash while the engines do not agree), and the times of
// what has not changed.
func (o *Operator) compute(c *Cluster, v view) {
	s, f, p := &c.Status, c.Facts, v.position
	s.State, s.PreviousState, s.Visit = string(p.State), string(p.Previous), p.Visit
	if s.State == "" {
		s.State = string(Init)
	}
	s.Since = stamp(p.Since)
	s.Reason, s.Message = "", ""
	switch refused := c.refusal(); {
	case p.Held:
		s.Reason, s.Message = p.Reason, p.Message
	case refused != nil && (p.State == Running || p.State == Hibernated || p.State == Init || p.State == ""): // nothing else says why nothing is done
		s.Reason, s.Message = fault.Of(refused).Reason(), fault.Message(refused)
	}
	s.ObservedGeneration = c.Generation
	o.computeRun(c, v)
	if f.known(factInstances) {
		o.computeInstances(c)
	}
	if hash, ok := f.applied(); ok {
		s.ParametersHash = hash
	}
	if f.known(factVolume) && f.Volume.State != "" {
		s.Storage = v1alpha1.StorageStatus{Mode: string(cmp.Or(f.Volume.Mode, port.Copies)), Volume: f.Volume.ID, Claim: f.Volume.Claim, Writer: f.Volume.Writer, Epoch: f.Volume.Epoch}
		if f.Volume.Size > 0 {
			s.Storage.Size = resource.NewQuantity(f.Volume.Size, resource.BinarySI)
		}
	}
	o.computeManager(c)
	gap := s.Backup.Gap
	c.computeBackup()
	if isWider(s.Backup.Gap, gap) {
		o.emit(c, Event{Warning: true, Reason: gapReason, Message: gapMessage(s.Backup.Gap)})
	}
	f.declared.Fill(s)
	c.computePoolers()
	s.Conditions = slices.Clone(s.Conditions) // the caller compares with the former status
	condition.Set(&s.Conditions, c.Generation, f.At, o.conditions(c, v)...)
	declared.Prune(&c.Spec, s)
}

func stamp(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t.UTC().Truncate(time.Second))
}

func (o *Operator) computeRun(c *Cluster, v view) {
	p := v.position
	if p.Run == "" {
		c.Status.Run = nil
		return
	}
	r := &v1alpha1.CurrentRun{ID: p.Run}
	if was := c.Status.Run; was != nil && was.ID == p.Run && v.run == nil {
		*r = *was
	}
	if v.run != nil {
		r.Flow, r.Phase = v.run.Flow, string(v.run.Phase)
		done, all := 0, 0
		for rec := range v.run.Steps() {
			if rec.Phase != runtype.StepEntered {
				all++
			}
			if rec.Phase.Settled() {
				done++
			}
		}
		if step := v.run.Current(); step != nil {
			r.Step, r.Message = step.Name, pending(step)
		}
		r.Progress = fmt.Sprintf("%d of %d steps begun are done", done, all)
		if f := v.run.Fault; f != nil && !v.run.Phase.Final() {
			r.Code, r.Message = string(f.Code), f.Message
			if kind, ok := fault.Lookup(string(f.Code)); ok {
				r.Remedy = kind.Remedy
			}
		}
	}
	c.Status.Run = r
}

// pending returns why a step does not go on now: what it waits for, or the fault of its last
// attempt.
func pending(step *runtype.StepRecord) string {
	switch {
	case step.Phase == runtype.StepWaiting && step.Wait != nil:
		return step.Wait.Message
	case step.Phase == runtype.StepRetrying && step.Fault != nil:
		return fmt.Sprintf("attempt %d met %s (%s), and it is tried again", step.Attempt, step.Fault.Code, step.Fault.Message)
	}
	return ""
}

func (o *Operator) computeInstances(c *Cluster) {
	f, s := c.Facts, &c.Status
	before, writer := s.Instances, f.writer()
	s.Instances, s.Writer, s.Readers = map[string]v1alpha1.InstanceStatus{}, "", 0
	if writer != nil {
		s.Writer = writer.ID
	}
	s.Readers = int32(len(f.readers())) //nolint:gosec // at most 15
	leader := f.leader()
	class, version, one := "", "", true
	for i := range f.Instances {
		in := &f.Instances[i]
		if in.State == port.Leaving {
			continue
		}
		health, message := f.health(in)
		st := v1alpha1.InstanceStatus{Name: in.Name, Role: string(in.Type), Node: in.Node, Address: in.Address, Port: in.Port,
			Class: in.Class.Name, Version: in.Version, Health: string(health), Message: message, Since: stamp(f.At)}
		switch {
		case in.Type == port.Temporary && (writer == nil || writer.Name != in.Name):
		case leader != nil && leader.Name == in.Name:
			st.Role = string(port.Writer)
		default:
			st.Role = string(port.Reader)
		}
		if e, asked := f.Engines[in.Name]; asked && e.Role == port.Follower && e.Lag >= 0 {
			st.LagBytes = new(port.RoundLag(e.Lag))
		}
		key := f.key(in)
		if was, ok := before[key]; ok && was.Name == st.Name && was.Health == st.Health {
			st.Since = was.Since
		}
		s.Instances[key] = st
		if in.Type != port.Temporary {
			one = one && (class == "" || class == in.Class.Name) && (version == "" || version == in.Version)
			class, version = in.Class.Name, in.Version
		}
	}
	if one && class != "" {
		s.Class, s.Version = class, version
	}
}

func (o *Operator) computeManager(c *Cluster) {
	f, was := c.Facts, c.Status.Manager
	m := v1alpha1.ManagerStatus{Address: f.Topology.Address, Since: stamp(f.At)}
	switch {
	case !f.known(factManager):
		m.Health, m.Address = string(Unknown), was.Address
	case !f.Topology.Present:
	case !f.Topology.Ready:
		m.Health = string(Starting)
	default:
		on := f.Topology.HA
		m.Health, m.HA = string(Healthy), &on
		if !on {
			m.Until = stamp(f.Topology.Until)
		}
	}
	if m.Health == was.Health && (m.HA == nil) == (was.HA == nil) && (m.HA == nil || *m.HA == *was.HA) {
		m.Since = was.Since
	}
	c.Status.Manager = m
}
