package sharedstorage

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The conditions of a cluster. All of them but those of databases, publications and subscriptions,
// which follow the first look at a writer, are present from the first pass.
const (
	ReadyCondition            = condition.TypeReady       // the writer accepts writes
	AvailableCondition        = "Available"               // enough readers are healthy
	ProgressingCondition      = condition.TypeProgressing // a run is working; otherwise the reason why not
	HighAvailabilityCondition = "HighAvailability"        // failover is on, and a reader could take over
	StorageReadyCondition     = "StorageReady"
	InterruptedCondition      = "Interrupted" // a run is paused; the message has code and remedy
	ArchivingCondition        = "Archiving"   // the log is archived; only of a cluster with spec.backup
)

// conditions derives all conditions from facts and position. It changes nothing.
func (o *Operator) conditions(c *Cluster, v view) []metav1.Condition {
	all := []metav1.Condition{o.ready(c, v), o.available(c, v), progressing(c, v), highAvailability(c, v), storageReady(c), interrupted(c, v)}
	if at := archiving(c); at != nil {
		if told, tells := asleep(c, ArchivingCondition, v.position); tells && c.Spec.Backup != nil {
			*at = told
		}
		all = append(all, *at)
	}
	if at := tlsReady(c); at != nil {
		all = append(all, *at)
	}
	for _, at := range c.declaredConditions() {
		if told, tells := asleep(c, at.Type, v.position); tells {
			at = told
		}
		all = append(all, at)
	}
	return all
}

func (o *Operator) ready(c *Cluster, v view) metav1.Condition {
	f := c.Facts
	kind := ReadyCondition
	if c.Refused != nil {
		return condition.FromFault(kind, fault.Of(c.Refused), "%s", fault.Message(c.Refused))
	}
	if err := f.Unknown[factInstances]; err != nil {
		return condition.Unobserved(kind, err)
	}
	if at, tells := asleep(c, kind, v.position); tells {
		return at
	}
	if many := f.primaries(); len(many) > 1 {
		return condition.FromFault(kind, port.TwoWriters, "%s and %s both accept writes", many[0].Name, many[1].Name)
	}
	if writer := f.writer(); writer != nil {
		if f.full() {
			return condition.FromFault(kind, port.StorageFull, "%s", port.StorageFull.Title)
		}
		if f.Engines[writer.Name].Stalled {
			return condition.New(kind, metav1.ConditionFalse, "CommitsWait", "instance %s answers no commit: durability is %s, and no reader that must have it streams", writer.ID, c.durability())
		}
		return condition.New(kind, metav1.ConditionTrue, "WriterReady", "instance %s takes writes", writer.ID)
	}
	leader := f.leader()
	code, why := f.managerFault()
	switch {
	case f.full():
		return condition.FromFault(kind, port.StorageFull, "%s", port.StorageFull.Title)
	case errors.Is(f.Unknown[factVolume], port.GrantLost):
		return condition.FromFault(kind, port.GrantLost, "%s", fault.Message(f.Unknown[factVolume]))
	case code != "":
		return condition.FromCode(kind, string(Code(code)), why)
	case leader == nil:
		return condition.New(kind, metav1.ConditionFalse, "NoWriter", "there is no writer yet")
	}
	health, message := f.health(leader)
	if health == Unknown {
		return condition.New(kind, metav1.ConditionUnknown, "NotAsked", "instance %s: %s", leader.ID, message)
	}
	return condition.FromFault(kind, port.WriterUnhealthy, "instance %s: %s", leader.ID, cmp.Or(message, "it is not the writer"))
}

func (o *Operator) available(c *Cluster, v view) metav1.Condition {
	f, kind := c.Facts, AvailableCondition
	if err := f.Unknown[factInstances]; err != nil {
		return condition.Unobserved(kind, err)
	}
	if at, tells := asleep(c, kind, v.position); tells {
		return at
	}
	healthy, unknown, sick := 0, 0, []string{}
	for _, i := range f.readers() {
		switch health, message := f.health(i); health {
		case Healthy:
			healthy++
		case Unknown:
			if f.streamedTo(i) {
				unknown++
				continue
			}
			sick = append(sick, fmt.Sprintf("%s: %s, and the writer does not stream to it", i.ID, message))
		default:
			sick = append(sick, fmt.Sprintf("%s: %s", i.ID, message))
		}
	}
	want := c.desiredReaders()
	switch {
	case healthy >= want:
		return condition.New(kind, metav1.ConditionTrue, "EnoughReaders", "%d of %d readers are healthy", healthy, want)
	case healthy+unknown >= want:
		return condition.New(kind, metav1.ConditionUnknown, "NotAsked", "%d of %d readers are healthy, %d cannot be asked", healthy, want, unknown)
	}
	message := fmt.Sprintf("%d of %d readers are healthy", healthy, want)
	if len(sick) > 0 {
		message += "; " + strings.Join(sick, "; ")
		if v.position.State == Running && f.writer() != nil {
			message += fmt.Sprintf(". A reader that has failed for %s is rebuilt by itself.", o.options.FailedAfter)
		}
	}
	return condition.New(kind, metav1.ConditionFalse, "ReadersMissing", "%s", message)
}

func progressing(c *Cluster, v view) metav1.Condition {
	p, kind := v.position, ProgressingCondition
	refusal := c.refusal()
	if at, tells := asleep(c, kind, p); tells && p.State == Hibernated && refusal == nil {
		return at
	}
	switch {
	case p.Held:
		return condition.New(kind, metav1.ConditionFalse, cmp.Or(p.Reason, "Interrupted"), "%s is interrupted: %s", p.Previous, p.Message)
	case p.State == Deleted:
		return condition.New(kind, metav1.ConditionFalse, string(Deleted), "the cluster is gone")
	case p.State == Deleting && v.run != nil && v.run.Phase == runtype.Paused:
		return condition.New(kind, metav1.ConditionFalse, v.out.Reason(), "Deleting is held up: %s", v.out.Message())
	case p.Visit > 0 && p.State != Running && p.State != Init && p.State != Hibernated:
		return condition.New(kind, metav1.ConditionTrue, string(p.State), "%s", cmp.Or(c.step(), p.Message))
	case p.State == Running && p.Ending != nil:
		return condition.New(kind, metav1.ConditionTrue, cmp.Or(p.Reason, "EndingRun"), "%s", cmp.Or(p.Message, "a run of an earlier visit is being ended"))
	case p.State == Running && v.moved:
		return condition.New(kind, metav1.ConditionTrue, "Deciding", "what is left to do is decided next")
	case refusal != nil:
		return condition.FromFault(kind, fault.Of(refusal), "%s", fault.Message(refusal))
	case v.out.IsLater() && v.out.Reason() == machine.LoopReason:
		return condition.FromFault(kind, machine.EventLoops, "%s", v.out.Message())
	case v.out.IsFail():
		return condition.New(kind, metav1.ConditionUnknown, v.out.Reason(), "%s", v.out.Message())
	case p.State == Running && !c.Facts.known(factInstances):
		return condition.Unobserved(kind, c.Facts.Unknown[factInstances])
	case p.State == Running && c.Facts.writer() == nil:
		return condition.New(kind, metav1.ConditionFalse, "AwaitsWriter", "nothing new is begun before a writer is healthy: see Ready")
	case p.State == Running:
		return condition.New(kind, metav1.ConditionFalse, "Rests", "all that was asked for is done")
	}
	return condition.New(kind, metav1.ConditionUnknown, "NotAsked", "nothing was begun yet")
}

// step returns a sentence about the current step of the run.
func (c *Cluster) step() string {
	if r := c.Status.Run; r != nil && r.Step != "" {
		if r.Message != "" && r.Code == "" {
			return fmt.Sprintf("run %s is at step %s: %s", r.ID, r.Step, r.Message)
		}
		return fmt.Sprintf("run %s is at step %s", r.ID, r.Step)
	}
	return ""
}

func highAvailability(c *Cluster, v view) metav1.Condition {
	f, kind := c.Facts, HighAvailabilityCondition
	if at, tells := asleep(c, kind, v.position); tells {
		return at
	}
	if err := f.Unknown[factManager]; err != nil {
		at := condition.New(kind, metav1.ConditionUnknown, port.ManagerUnreachable.Reason(), "the cluster manager does not answer since %s. %s", c.Status.Manager.Since.UTC().Format("15:04:05 MST"), port.ManagerUnreachable.Remedy)
		if was := c.Status.Manager.HA; was == nil || !*was { // it was off when the manager last answered
			at.Status = metav1.ConditionFalse
		}
		return at
	}
	t := f.Topology
	code, why := f.managerFault()
	switch {
	case !t.Present:
		return condition.New(kind, metav1.ConditionFalse, "NoManager", "there is no cluster manager yet")
	case !t.Ready:
		return condition.New(kind, metav1.ConditionUnknown, "ManagerStarting", "the cluster manager starts")
	case code != "":
		return condition.FromCode(kind, string(Code(code)), why)
	case t.HA:
		if reason, message := c.noFailover(); reason != "" {
			return condition.New(kind, metav1.ConditionFalse, reason, "%s", message)
		}
		if missing := c.spreadMissing(); len(missing) > 0 {
			return condition.New(kind, metav1.ConditionTrue, "SpreadNotMet", "the cluster manager fails over, but no healthy reader is outside of %s, where the writer is. Migrate a reader, or add a node there.", strings.Join(missing, " and "))
		}
		return condition.New(kind, metav1.ConditionTrue, "FailoverOn", "the cluster manager fails over")
	case !c.haEnabled() && t.Until.IsZero():
		return condition.New(kind, metav1.ConditionFalse, "FailoverNotWanted", "ha.enabled is false")
	case t.Until.IsZero():
		return condition.New(kind, metav1.ConditionFalse, "FailoverOff", "failover is off since %s", c.Status.Manager.Since.UTC().Format("15:04:05 MST"))
	}
	return condition.New(kind, metav1.ConditionFalse, "FailoverPaused", "failover is off since %s, while instances are changed", c.Status.Manager.Since.UTC().Format("15:04:05 MST"))
}

func storageReady(c *Cluster) metav1.Condition {
	f, kind := c.Facts, StorageReadyCondition
	if err := f.Unknown[factVolume]; err != nil {
		if k := fault.Of(err); k == port.StorageFailed || k == port.GrantLost {
			return condition.FromFault(kind, k, "%s", fault.Message(err))
		}
		return condition.Unobserved(kind, err)
	}
	switch {
	case f.full():
		return condition.FromFault(kind, port.StorageFull, "%s", port.StorageFull.Title)
	case f.Volume.Message != "" && (f.Volume.State == port.VolumeReady || f.Volume.State == ""):
		return condition.FromFault(kind, port.StorageFailed, "%s", f.Volume.Message)
	case f.Volume.State == "":
		return condition.New(kind, metav1.ConditionFalse, "NoVolume", "there is no volume yet")
	case f.Volume.State == port.VolumeReady:
		return condition.New(kind, metav1.ConditionTrue, "VolumeReady", "volume %s is ready (%s)", f.Volume.ID, f.Volume.Mode.Text())
	}
	message := fmt.Sprintf("volume %s is %s", f.Volume.ID, strings.ToLower(string(f.Volume.State)))
	if f.Volume.Message != "" {
		message += ": " + f.Volume.Message
	}
	return condition.New(kind, metav1.ConditionFalse, "Volume"+string(f.Volume.State), "%s", message)
}

func interrupted(c *Cluster, v view) metav1.Condition {
	p, kind := v.position, InterruptedCondition
	code, message := p.Code, p.Message
	if !p.Held {
		if p.State != Deleting || v.run == nil || v.run.Phase != runtype.Paused || v.run.Fault == nil {
			return condition.New(kind, metav1.ConditionFalse, "NotInterrupted", "no run is paused")
		}
		code, message = v.run.Fault.Code, v.run.Fault.Message
	}
	remedy := "Resume the run."
	if k, ok := fault.Lookup(string(code)); ok {
		remedy = k.Remedy
	}
	return condition.New(kind, metav1.ConditionTrue, fault.Camel(cmp.Or(code, workflow.PausedByPerson.Code)), "%s: %s. %s", code, message, remedy)
}
