package sim

import (
	"container/heap"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// jobRetention is how long the cloud remembers a finished job.
const jobRetention = 24 * time.Hour

// Operations of jobs that are not actions.
const (
	doCreate  = "create"
	doMigrate = "migrate"
)

// job is an asynchronous operation. It is stored as JSON.
type job struct {
	ID     string
	CallID string `json:",omitempty"`
	Seq    int64
	What   string // doCreate, doMigrate, or an action
	Ref    cluster.Ref
	Owner  cluster.Owner
	Began  time.Time
	Ends   time.Time
	Done   bool       `json:",omitempty"`
	Stuck  bool       `json:",omitempty"`
	Code   fault.Code `json:",omitempty"` // the fault of its failure
	Text   string     `json:",omitempty"`
}

func (j *job) err() error {
	if j.Code == "" {
		return nil
	}
	return failure(j.Code, j.Text)
}

// call is the answer to the request that started the job. Poll reports a failure.
func (j *job) call() cluster.Call {
	return cluster.Call{Job: j.ID, Ref: j.Ref, Done: j.Done && j.Code == ""}
}

// begin starts a job on a resource. callID may be empty; r is the rule that applies to the
// call.
func (c *Cloud) begin(t *resource, what, callID string, took time.Duration, now time.Time, r *rule) *job {
	seq := c.next()
	j := &job{
		Seq: seq, CallID: callID, What: what, Ref: t.ref(), Owner: t.Owner, Began: now, Ends: now.Add(took),
		ID: callID,
	}
	if callID == "" || c.o.NoCallIDs || c.jobs[callID] != nil {
		t.Jobs++
		j.ID, _ = c.hash(t.Jobs, "job/"+t.ID)
	}
	if r != nil && r.Do == FailJob {
		j.Code, j.Text = codeOf(r.err()), fault.Message(r.err())
	}
	c.jobs[j.ID] = j
	if callID != "" && !c.o.NoCallIDs {
		c.byCall[callID] = j
	}
	t.Was, t.Job = t.State, j.ID
	switch what {
	case doCreate:
		t.State = stateSettingUp
		if t.Kind == cluster.VM {
			t.State = stateStarting
		}
	case doMigrate:
		t.State = stateMigrating
	case string(cluster.Start):
		t.State = stateStarting
	case string(cluster.Stop), string(cluster.ForceStop), string(Trash):
		t.State = stateStopping
	case string(cluster.Destroy):
		t.State = stateExpunging
	}
	c.persist(t)
	switch {
	case r != nil && r.Do == Stuck:
		j.Stuck = true
	case took <= 0:
		c.end(j, now)
	default:
		heap.Push(&c.due, event{at: j.Ends, seq: seq, id: j.ID})
	}
	if j.Done && j.Code == "" && c.byCall[callID] != j {
		c.drop(j) // nobody polls a job that ended at once
		j.ID = ""
		return j
	}
	c.persistJob(j)
	return j
}

// addFinishedJob adds a job that is already done. It replaces no open job of the resource.
func (c *Cloud) addFinishedJob(t *resource, what, callID string, now time.Time) *job {
	j := &job{ID: callID, CallID: callID, Seq: c.next(), What: what, Ref: t.ref(), Owner: t.Owner, Began: now, Ends: now, Done: true}
	c.jobs[j.ID], c.byCall[callID] = j, j
	heap.Push(&c.due, event{at: now.Add(jobRetention), seq: j.Seq, id: j.ID})
	c.persistJob(j)
	return j
}

func (c *Cloud) drop(j *job) {
	delete(c.jobs, j.ID)
	if c.byCall[j.CallID] == j {
		delete(c.byCall, j.CallID)
	}
	c.persistJobRemoval(j)
}

// end applies the effect of a job, or deletes the job after jobRetention.
func (c *Cloud) end(j *job, at time.Time) {
	if j.Done {
		c.drop(j)
		return
	}
	j.Done, j.Stuck, j.Ends = true, false, at
	if j.Began.Before(at) || j.Code != "" || c.byCall[j.CallID] == j {
		heap.Push(&c.due, event{at: at.Add(jobRetention), seq: j.Seq, id: j.ID})
		c.persistJob(j)
	}
	t, ok := c.resources[j.Ref.ID]
	if !ok || t.Job != j.ID {
		if j.What != string(cluster.Destroy) && j.Code == "" {
			j.Code, j.Text = cluster.ProviderRefused.Code, "another job has taken the place of this one"
		}
		return
	}
	failed := j.Code != ""
	switch j.What {
	case doCreate:
		c.created(t, failed, at)
	case doMigrate:
		t.State = stateRunning
	case string(cluster.Start):
		t.State = stateStopped
		if !failed {
			c.boot(t, at)
		}
	case string(cluster.Stop), string(cluster.ForceStop):
		t.State = stateStopped
		if failed {
			t.State = t.Was
		}
	case string(Trash):
		t.State = stateDestroyed
	case string(cluster.Destroy):
		if !failed {
			c.remove(t, "call")
			return
		}
		t.State = t.Was
	}
	c.persist(t)
}

func (c *Cloud) created(t *resource, failed bool, at time.Time) {
	switch {
	case t.Kind == cluster.VM && failed:
		t.State = stateError
	case t.Kind == cluster.VM:
		c.boot(t, at)
	case failed:
		c.remove(t, "call")
	default:
		t.State = stateReady
	}
}

// Unstick ends all stuck jobs now.
func (c *Cloud) Unstick() {
	c.mutate(func(now time.Time) {
		var stuck []*job
		for _, j := range c.jobs {
			if j.Stuck {
				stuck = append(stuck, j)
			}
		}
		slices.SortFunc(stuck, func(a, b *job) int { return int(a.Seq - b.Seq) })
		for _, j := range stuck {
			c.end(j, now)
		}
	})
}

// poll returns the progress of a job.
func (c *Cloud) poll(call cluster.Call, e *Entry) (cluster.Progress, error) {
	j, ok := c.jobs[call.Job]
	if !ok {
		return cluster.Progress{}, cluster.ProviderRefused.Errorf("there is no job %q", call.Job)
	}
	e.Name, e.ID, e.Kind = j.Ref.Name, j.Ref.ID, j.Ref.Kind
	if !j.Done {
		p := cluster.Progress{Ref: j.Ref}
		if !j.Stuck {
			p.PollAfter = j.Ends.Sub(c.o.Now())
		}
		return p, nil
	}
	return cluster.Progress{Done: true, Err: j.err(), Ref: j.Ref}, nil
}
