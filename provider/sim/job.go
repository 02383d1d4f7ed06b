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

func failure(code fault.Code, text string) error {
	kind, ok := fault.Lookup(string(code))
	if !ok {
		kind = cluster.ProviderRefused
	}
	return kind.Errorf("%s", text)
}

// call is the answer to the request that started the job. Poll reports a failure.
func (j *job) call() cluster.Call {
	return cluster.Call{Job: j.ID, Ref: j.Ref, Done: j.Done && j.Code == ""}
}

// jobs are the asynchronous operations that are not forgotten, and their effects.
type jobs struct {
	o         *Options
	ids       *ids
	inventory *inventory
	nodes     *Nodes
	disk      *disk

	byID   map[string]*job
	byCall map[string]*job
	due    queue // jobs that end
}

// begin starts a job on a resource. callID may be empty; r is the rule that applies to the
// call.
func (s *jobs) begin(t *resource, what, callID string, took time.Duration, now time.Time, r *rule) *job {
	seq := s.ids.next()
	j := &job{
		Seq: seq, CallID: callID, What: what, Ref: t.ref(), Owner: t.Owner, Began: now, Ends: now.Add(took),
		ID: callID,
	}
	if callID == "" || s.o.NoCallIDs || s.byID[callID] != nil {
		t.Jobs++
		j.ID, _ = s.ids.hash(t.Jobs, "job/"+t.ID)
	}
	if r != nil && r.Do == FailJob {
		j.Code, j.Text = codeOf(r.err()), fault.Message(r.err())
	}
	s.byID[j.ID] = j
	if callID != "" && !s.o.NoCallIDs {
		s.byCall[callID] = j
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
	s.disk.changed(t)
	switch {
	case r != nil && r.Do == Stuck:
		j.Stuck = true
	case took <= 0:
		s.end(j, now)
	default:
		heap.Push(&s.due, event{at: j.Ends, seq: seq, id: j.ID})
	}
	if j.Done && j.Code == "" && s.byCall[callID] != j {
		s.drop(j) // nobody polls a job that ended at once
		j.ID = ""
		return j
	}
	s.disk.jobChanged(j)
	return j
}

// addFinished adds a job that is already done. It replaces no open job of the resource.
func (s *jobs) addFinished(t *resource, what, callID string, now time.Time) *job {
	j := &job{ID: callID, CallID: callID, Seq: s.ids.next(), What: what, Ref: t.ref(), Owner: t.Owner, Began: now, Ends: now, Done: true}
	s.byID[j.ID], s.byCall[callID] = j, j
	heap.Push(&s.due, event{at: now.Add(jobRetention), seq: j.Seq, id: j.ID})
	s.disk.jobChanged(j)
	return j
}

func (s *jobs) drop(j *job) {
	delete(s.byID, j.ID)
	if s.byCall[j.CallID] == j {
		delete(s.byCall, j.CallID)
	}
	s.disk.jobRemoved(j)
}

// end applies the effect of a job, or deletes the job after jobRetention.
func (s *jobs) end(j *job, at time.Time) {
	if j.Done {
		s.drop(j)
		return
	}
	j.Done, j.Stuck, j.Ends = true, false, at
	if j.Began.Before(at) || j.Code != "" || s.byCall[j.CallID] == j {
		heap.Push(&s.due, event{at: at.Add(jobRetention), seq: j.Seq, id: j.ID})
		s.disk.jobChanged(j)
	}
	t, ok := s.inventory.byID[j.Ref.ID]
	if !ok || t.Job != j.ID {
		if j.What != string(cluster.Destroy) && j.Code == "" {
			j.Code, j.Text = cluster.ProviderRefused.Code, "another job has taken the place of this one"
		}
		return
	}
	failed := j.Code != ""
	switch j.What {
	case doCreate:
		s.created(t, failed, at)
	case doMigrate:
		t.State = stateRunning
	case string(cluster.Start):
		t.State = stateStopped
		if !failed {
			s.nodes.boot(t, at)
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
			s.inventory.remove(t, "call")
			return
		}
		t.State = t.Was
	}
	s.disk.changed(t)
}

func (s *jobs) created(t *resource, failed bool, at time.Time) {
	switch {
	case t.Kind == cluster.VM && failed:
		t.State = stateError
	case t.Kind == cluster.VM:
		s.nodes.boot(t, at)
	case failed:
		s.inventory.remove(t, "call")
	default:
		t.State = stateReady
	}
}

// settle ends the jobs that are over. Every call begins with it.
func (s *jobs) settle(now time.Time) {
	for len(s.due) > 0 && !s.due[0].at.After(now) {
		e := heap.Pop(&s.due).(event)
		if j, ok := s.byID[e.id]; ok {
			s.end(j, e.at)
		}
	}
}

// unstick ends all stuck jobs.
func (s *jobs) unstick(now time.Time) {
	var stuck []*job
	for _, j := range s.byID {
		if j.Stuck {
			stuck = append(stuck, j)
		}
	}
	slices.SortFunc(stuck, func(a, b *job) int { return int(a.Seq - b.Seq) })
	for _, j := range stuck {
		s.end(j, now)
	}
}

// restore adds a job that was stored.
func (s *jobs) restore(j *job) {
	s.byID[j.ID] = j
	if j.CallID != "" && !s.o.NoCallIDs {
		s.byCall[j.CallID] = j
	}
	switch {
	case j.Done:
		heap.Push(&s.due, event{at: j.Ends.Add(jobRetention), seq: j.Seq, id: j.ID})
	case !j.Stuck:
		heap.Push(&s.due, event{at: j.Ends, seq: j.Seq, id: j.ID})
	}
}

// poll returns the progress of a job.
func (s *jobs) poll(call cluster.Call, e *Entry) (cluster.Progress, error) {
	j, ok := s.byID[call.Job]
	if !ok {
		return cluster.Progress{}, cluster.ProviderRefused.Errorf("there is no job %q", call.Job)
	}
	e.Name, e.ID, e.Kind = j.Ref.Name, j.Ref.ID, j.Ref.Kind
	if !j.Done {
		p := cluster.Progress{Ref: j.Ref}
		if !j.Stuck {
			p.PollAfter = j.Ends.Sub(s.o.Now())
		}
		return p, nil
	}
	return cluster.Progress{Done: true, Err: j.err(), Ref: j.Ref}, nil
}

// find returns the resource of a want: by call id, or by name with the want's tags, or by
// name without any tags if a call of the same owner created it.
func (s *jobs) find(w cluster.DesiredResource, now time.Time) *resource {
	if j, ok := s.byCall[w.CallID]; ok && w.CallID != "" {
		if t, ok := s.inventory.byID[j.Ref.ID]; ok {
			return t
		}
	}
	t, ok := s.inventory.byName[name{string(w.Kind), w.Name}]
	if !ok || now.Before(t.Visible) {
		return nil
	}
	untagged := t.Installation == "" && t.Cluster == "" && t.Key == "" && !t.Foreign && t.Owner == w.Owner
	same := t.Installation == w.Tags[cluster.TagInstallation] && t.Cluster == w.Tags[cluster.TagCluster] && t.Key == w.Tags[cluster.TagKey]
	if !untagged && !same {
		return nil
	}
	return t
}
