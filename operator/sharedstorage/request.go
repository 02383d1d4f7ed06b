package sharedstorage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control/request"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The kinds of requests. Each is the name of an annotation after Prefix; the comment gives its
// value.
const (
	Prefix          = "pawl.dev/"
	Restart         = "restart"          // cluster, or an instance id
	SwitchWriter    = "switch-writer"    // instance id
	Migrate         = "migrate"          // instance id|node
	RemoveReader    = "remove-reader"    // instance id
	Rebuild         = "rebuild"          // cluster, or a reader's id
	FlushParameters = "flush-parameters" // -
	ExtendStorage   = "extend-storage"   // -
)

// Requests lists all kinds, in the order in which concurrent requests are accepted.
var Requests = []string{Restart, SwitchWriter, Migrate, RemoveReader, Rebuild, FlushParameters, ExtendStorage}

// The states of a request.
const (
	Pending   = "Pending"
	InWork    = "Running"
	Done      = "Done"
	Rejected  = "Rejected"
	Cancelled = "Cancelled"
)

// ended reports whether a request is in a final state.
func ended(r *v1alpha1.RequestStatus) bool {
	return r.State == Done || r.State == Rejected || r.State == Cancelled
}

// oldest returns the first pending request of these kinds, or nil.
func (c *Cluster) oldest(kinds ...string) *v1alpha1.RequestStatus {
	for i := range c.Status.Requests {
		if r := &c.Status.Requests[i]; r.State == Pending && slices.Contains(kinds, r.Kind) {
			return r
		}
	}
	return nil
}

// oldestRebuild returns the first pending rebuild of the cluster, or of a reader.
func (c *Cluster) oldestRebuild(ofCluster bool) *v1alpha1.RequestStatus {
	for i := range c.Status.Requests {
		if r := &c.Status.Requests[i]; r.State == Pending && r.Kind == Rebuild && rebuildsCluster(r.Args) == ofCluster {
			return r
		}
	}
	return nil
}

// oldestFirst lists the kinds that are carried out in the order of their arrival (row 3 of the
// table).
var oldestFirst = []string{SwitchWriter, Restart, Migrate, RemoveReader}

func (c *Cluster) request(id string) *v1alpha1.RequestStatus {
	for i := range c.Status.Requests {
		if c.Status.Requests[i].ID == id {
			return &c.Status.Requests[i]
		}
	}
	return nil
}

func (c *Cluster) accepted(id string) bool { return c.request(id) != nil }

// accept takes requests from annotations in three steps, and may stop after each: it stamps the
// value with an id, accepts the request under that id in the status that this pass writes, and
// removes the annotation once the status is written. A crash between two steps neither loses nor
// repeats a request.
func (o *Operator) accept(ctx context.Context, c *Cluster) error {
	store := o.stores[c.Kind]
	for _, kind := range Requests {
		value := c.Annotations[Prefix+kind]
		if request.Next(value, c.accepted) == request.StampIt {
			stamped := request.Stamp(value, request.NewID())
			if err := store.Annotate(ctx, c, Prefix+kind, value, stamped); err != nil {
				return err
			}
			c.annotate(Prefix+kind, stamped)
			value = stamped
		}
		if request.Next(value, c.accepted) == request.AcceptIt {
			args, id := request.Parse(value)
			o.admit(c, kind, args, id)
		}
	}
	o.recheckPending(c)
	c.forget()
	return nil
}

// recheckPending judges pending requests again, because what they name may have changed.
func (o *Operator) recheckPending(c *Cluster) {
	now := metav1.NewTime(o.now()).Rfc3339Copy()
	for i := range c.Status.Requests {
		r := &c.Status.Requests[i]
		if r.State != Pending {
			continue
		}
		if err := c.checkRequest(r.Kind, r.Args); err != nil {
			o.reject(c, r, err, now)
		}
	}
}

func (o *Operator) reject(c *Cluster, r *v1alpha1.RequestStatus, err error, now metav1.Time) {
	kind := fault.Of(err)
	r.State, r.Code, r.Message, r.EndedAt = Rejected, string(kind.Code), fault.Message(err)+". "+kind.Remedy, &now
	o.emit(c, Event{Warning: true, Reason: kind.Reason(), Message: fmt.Sprintf("%s=%s was rejected: %s", r.Kind, r.Args, r.Message)})
	o.options.Logger.Info("request rejected", "cluster", c.Ref.String(), "kind", r.Kind, "args", r.Args, "code", r.Code)
}

func (c *Cluster) annotate(key, value string) {
	next := map[string]string{}
	for k, v := range c.Annotations {
		next[k] = v
	}
	if next[key] = value; value == "" {
		delete(next, key)
	}
	c.Annotations = next
}

// admit accepts a request, or rejects it at once.
func (o *Operator) admit(c *Cluster, kind, args, id string) {
	now := metav1.NewTime(o.now()).Rfc3339Copy()
	r := v1alpha1.RequestStatus{ID: id, Kind: kind, Args: args, State: Pending, AcceptedAt: now}
	if err := c.checkRequest(kind, args); err != nil {
		o.reject(c, &r, err, now)
	}
	o.count(kind, r.State)
	c.Status.Requests = append(c.Status.Requests, r)
}

func (o *Operator) count(kind, state string) {
	if o.options.Metrics != nil {
		o.options.Metrics.Request(kind, state)
	}
}

// checkRequest returns why a request cannot be carried out; nil if it can, as far as the facts
// show.
func (c *Cluster) checkRequest(kind, args string) error {
	f := c.Facts
	if c.Spec.Hibernated {
		return ClusterHibernated.Errorf("spec.hibernated is true: no engine is to run")
	}
	reader := func(id string) error {
		leader := f.leader()
		switch {
		case id == "":
			return RequestIllegible.Errorf("no instance is named")
		case !f.known(factInstances):
			return nil
		case len(f.holders(id)) == 0:
			return InstanceUnknown.Errorf("there is no instance %s", id)
		case leader != nil && leader.ID == id:
			return InstanceIsWriter.Errorf("instance %s is the writer", id)
		}
		return nil
	}
	known := func(id string) error {
		if err := reader(id); !errors.Is(err, InstanceIsWriter) {
			return err
		}
		return nil
	}
	switch kind {
	case SwitchWriter, RemoveReader:
		return reader(args)
	case Migrate:
		id, node, two := strings.Cut(args, "|")
		if !two || strings.TrimSpace(node) == "" {
			return RequestIllegible.Errorf("%q names no instance and node (id|node)", args)
		}
		return known(strings.TrimSpace(id))
	case Restart:
		if args == "cluster" || meansCluster(args) {
			return nil
		}
		return known(args)
	case Rebuild:
		if rebuildsCluster(args) {
			return nil
		}
		return reader(args)
	}
	return nil
}

// meansCluster reports whether a value means the whole cluster where an instance may be named. "1"
// does not: it is the id of an instance.
func meansCluster(args string) bool { return args == "T" || strings.EqualFold(args, "true") }

func rebuildsCluster(args string) bool { return args == "cluster" || meansCluster(args) }

// forget drops the oldest ended requests. It keeps those that an annotation still names.
func (c *Cluster) forget() {
	c.Status.Requests = request.Trim(c.Status.Requests, ended, func(r *v1alpha1.RequestStatus) bool { return c.isAnnotated(r.ID) })
}

// isAnnotated reports whether an annotation still carries this id.
func (c *Cluster) isAnnotated(id string) bool {
	for _, kind := range Requests {
		if _, at := request.Parse(c.Annotations[Prefix+kind]); at == id {
			return true
		}
	}
	return false
}

// release removes the annotations whose requests are in the stored status. A newer request in the
// same annotation stays.
func (o *Operator) release(ctx context.Context, c *Cluster) error {
	for _, kind := range Requests {
		value := c.Annotations[Prefix+kind]
		if request.Next(value, c.accepted) != request.RemoveIt {
			continue
		}
		err := o.stores[c.Kind].Annotate(ctx, c, Prefix+kind, value, "")
		if err != nil && !errors.Is(err, fault.WriteConflict) {
			return err
		}
		if err == nil {
			c.annotate(Prefix+kind, "")
		}
	}
	return nil
}

// closeRequests sets the state of the request of a visit, in the write that moves the cluster. run
// is the run of the visit; it says why it was cancelled.
func (o *Operator) closeRequests(c *Cluster, move machine.Move, run *runtype.Run) {
	now := metav1.NewTime(o.now()).Rfc3339Copy()
	end := func(id, state, code, message string) {
		if r := c.request(id); r != nil && !ended(r) {
			r.State, r.Code, r.Message, r.EndedAt = state, code, message, &now
			o.count(r.Kind, state)
		}
	}
	from, to := requestOf(move.From), requestOf(move.To)
	switch move.Cause {
	case machine.ByEvent:
		if from != "" && from != to {
			end(from, Cancelled, "", fmt.Sprintf("ended by %s", move.To.Event))
		}
		if r := c.request(to); r != nil && !ended(r) {
			r.State, r.RunID = InWork, ""
		}
		if move.To.State == Deleting {
			for i := range c.Status.Requests {
				end(c.Status.Requests[i].ID, Cancelled, "", "the cluster is deleted")
			}
		}
	case machine.ByStart:
		if r := c.request(to); r != nil && r.State == InWork {
			r.RunID = move.To.Run
		}
	case machine.ByThen:
		if from != "" && to == "" { // the visit goes on in another working state
			end(from, Done, "", "")
		}
	case machine.ByChange: // its run was cancelled, and the request is pending again
		if r := c.request(from); r != nil && r.State == InWork {
			r.State, r.RunID = Pending, ""
		}
	case machine.ByAbort:
		code, message := cause(run)
		end(from, Cancelled, string(code), cmp.Or(message, move.To.Message))
	}
	c.forget()
}

// cause returns the fault at which a run was cancelled, if any.
func cause(run *runtype.Run) (code faultCode, message string) {
	switch {
	case run == nil:
	case run.Fault != nil:
		return run.Fault.Code, run.Fault.Message
	case len(run.State.Healing) > 0:
		code = run.State.Healing[len(run.State.Healing)-1].Code
		if kind, ok := fault.Lookup(string(code)); ok {
			message = kind.Title + ". " + kind.Remedy
		}
	}
	return code, message
}

// requestOf returns the id of the request that a visit carries out.
func requestOf(p machine.Position) string {
	var in Input
	if len(p.Params) == 0 || json.Unmarshal(p.Params, &in) != nil {
		return ""
	}
	return in.Request
}

// requestPending holds if the oldest request is of this kind. what selects one of the two flows of
// a kind.
func requestPending(kind, what string) func(c *Cluster) (bool, error) {
	return func(c *Cluster) (bool, error) {
		r := c.oldest(oldestFirst...)
		if r == nil || r.Kind != kind || !c.Facts.known(factInstances) {
			return false, nil
		}
		id, _, _ := strings.Cut(r.Args, "|")
		leader := c.Facts.leader()
		writes := leader != nil && leader.ID == strings.TrimSpace(id)
		all := id == "cluster" || meansCluster(id)
		switch what {
		case "cluster":
			return all, nil
		case "instance":
			return !all, nil
		case "writer":
			return writes, nil
		case "reader":
			return !writes, nil
		}
		return true, nil
	}
}

// forRequest puts the arguments of the request into the input of the run.
func forRequest(c *Cluster) (any, error) {
	r := c.oldest(oldestFirst...)
	id, node, _ := strings.Cut(r.Args, "|")
	return Input{Request: r.ID, ID: strings.TrimSpace(id), Node: strings.TrimSpace(node), Readers: []string{}, Pooled: c.Spec.Pooler != nil}, nil
}

// key returns the key of an instance in status.instances.
func (f *Facts) key(i *port.Instance) string {
	for _, other := range f.holders(i.ID) {
		if other.Name != i.Name && (f.preferred(other, i)) {
			return i.Name
		}
	}
	return i.ID
}
