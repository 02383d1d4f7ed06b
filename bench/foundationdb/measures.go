package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond))
}

func settled(groups int) (*world, error) {
	w, err := newWorld(groups)
	if err != nil {
		return nil, err
	}
	err = w.settle()
	return w, err
}

func (w *world) cluster() (*v1beta2.FoundationDBCluster, error) {
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = namespace, name
	found, err := w.As("").Objects.Get(context.Background(), c)
	if err == nil && !found {
		err = errors.New("the cluster is gone")
	}
	return c, err
}

func (w *world) edit(patch string) error {
	c, err := w.cluster()
	if err != nil {
		return err
	}
	return w.As("").Objects.Patch(context.Background(), c, []byte(patch))
}

// steadyAt100 is the CPU of a pass over 100 groups, once it was measured.
var steadyAt100 time.Duration

func steady(groups int, row func(...any)) error {
	w, err := settled(groups)
	if err != nil {
		return err
	}
	const passes = 20
	if _, err := w.pass(); err != nil {
		return err
	}
	w.reset()
	for range passes {
		out, err := w.pass()
		if err != nil {
			return err
		}
		if !out.IsDone() {
			return fmt.Errorf("it is not at rest: %s", out)
		}
	}
	calls, status := w.calls()
	each := w.cpu / passes
	c, err := w.cluster()
	if err != nil {
		return err
	}
	connection, err := fdb.ParseConnection(c.Status.ConnectionString)
	if err != nil {
		return err
	}
	document := w.Cluster().Status(connection, fdb.Version{Major: 7, Minor: 3, Patch: 69})
	began := cpu()
	for range passes {
		if _, err := fdb.ParseStatus(document); err != nil {
			return err
		}
	}
	parsing := (cpu() - began) / passes
	if groups == 100 {
		steadyAt100 = each
	}
	growth := "–"
	if steadyAt100 > 0 {
		growth = fmt.Sprintf("%.1f times", float64(each)/float64(steadyAt100))
	}
	row(groups, calls/passes, status/passes, w.Writes(), milliseconds(each), milliseconds(each/time.Duration(groups)), growth, milliseconds(parsing), milliseconds(parsing/time.Duration(groups)))
	return nil
}

func create(groups int, row func(...any)) error {
	w, err := settled(groups)
	if err != nil {
		return err
	}
	calls, _ := w.calls()
	ofGroups, ofStatus := 0, 0
	for c, n := range w.Calls() {
		switch {
		case c.Verb == "SaveStatus":
			ofStatus += n
		case (c.Verb == "Create" || c.Verb == "Patch") && (c.Kind == "Pod" || c.Kind == "PersistentVolumeClaim"):
			ofGroups += n
		}
	}
	row(groups, w.passes, calls, fmt.Sprintf("%.2f", float64(ofGroups)/float64(groups)), ofStatus, w.Writes()-ofGroups-ofStatus, w.cpu.Round(time.Millisecond))
	return nil
}

func knob(groups int, row func(...any)) error {
	w, err := settled(groups)
	if err != nil {
		return err
	}
	w.Advance(15 * time.Minute) // the database is up for long enough
	w.reset()
	before := w.Cluster().CausedRecoveries()
	if err := w.edit(`{"spec":{"processes":{"general":{"customParameters":["knob_disable_posix_kernel_aio=1"]}}}}`); err != nil {
		return err
	}
	if err := w.settle(); err != nil {
		return err
	}
	calls, _ := w.calls()
	row(groups, w.passes, calls, w.Writes(), fmt.Sprintf("%.2f", float64(w.Writes()-w.passes)/float64(groups)), w.Cluster().CausedRecoveries()-before, w.cpu.Round(time.Millisecond))
	return nil
}

func statusSize(groups int, row func(...any)) error {
	w, err := settled(groups)
	if err != nil {
		return err
	}
	c, err := w.cluster()
	if err != nil {
		return err
	}
	// The first two exclude others: a pod that is missing has no state, and the sidecar of one that is
	// pending is not asked.
	conditions := []v1beta2.ProcessGroupConditionType{
		v1beta2.MissingPod, v1beta2.PodPending, v1beta2.IncorrectPodSpec, v1beta2.IncorrectPodMetadata, v1beta2.IncorrectConfigMap, v1beta2.IncorrectCommandLine, v1beta2.IncorrectSidecarImage,
		v1beta2.PodFailing, v1beta2.SidecarUnreachable, v1beta2.ResourcesTerminating, v1beta2.MissingPVC, v1beta2.MissingService,
		v1beta2.MissingProcesses, v1beta2.NodeTaintDetected, v1beta2.NodeTaintReplacing,
		v1beta2.ProcessIsMarkedAsExcluded, v1beta2.ProcessHasIOError, v1beta2.ProcessHasHighRunLoopBusy,
	}
	size := func(types []v1beta2.ProcessGroupConditionType) (int, error) {
		for i := range c.Status.ProcessGroups {
			g := &c.Status.ProcessGroups[i]
			g.ProcessGroupConditions = nil
			for _, t := range types {
				g.ProcessGroupConditions = append(g.ProcessGroupConditions, v1beta2.ProcessGroupCondition{Type: t, Timestamp: w.Now().Unix()})
			}
		}
		text, err := json.Marshal(c.Status)
		return len(text), err
	}
	all, err := size(conditions)
	if err != nil {
		return err
	}
	together, err := size(conditions[2:])
	row(groups, all, all/groups, together)
	return err
}

// memory measures what stays of the operator after a pass: the world is the same with and without it.
func memory(groups int, row func(...any)) error {
	w, err := settled(groups)
	if err != nil {
		return err
	}
	if _, err := w.pass(); err != nil {
		return err
	}
	with := heap()
	w.operator = nil
	without := heap()
	runtime.KeepAlive(w) // the world stays
	row(groups, strconv.FormatFloat(float64(int64(with)-int64(without))/(1<<20), 'f', 2, 64))
	return nil
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func replace(groups int, row func(...any)) error {
	w, err := settled(groups)
	if err != nil {
		return err
	}
	if err := w.edit(`{"spec":{"automationOptions":{"replacements":{"failureDetectionTimeSeconds":300}}}}`); err != nil {
		return err
	}
	if err := w.settle(); err != nil {
		return err
	}
	c, err := w.cluster()
	if err != nil {
		return err
	}
	var victim v1beta2.ProcessGroupStatus
	for _, g := range c.Status.ProcessGroups {
		if g.ProcessClass == v1beta2.ProcessClass(fdb.ClassStorage) {
			victim = g
		}
	}
	w.LoseNode(victim.FaultDomain)
	marked, passes := time.Time{}, 0
	for range 500 {
		if _, err := w.pass(); err != nil {
			return err
		}
		if c, err = w.cluster(); err != nil {
			return err
		}
		if marked.IsZero() {
			for _, g := range c.Status.ProcessGroups {
				if g.ProcessGroupID == victim.ProcessGroupID && g.Marked() {
					marked = g.RemovalTimestamp.Time
				}
			}
		}
		if marked.IsZero() {
			continue
		}
		passes++
		serving := 0
		for _, g := range c.Status.ProcessGroups {
			if g.ProcessClass == victim.ProcessClass && !g.Marked() && g.Has(v1beta2.ProcessGroupConditionReady) {
				serving++
			}
		}
		if serving >= foundationdb.Groups(c.Spec)[fdb.ClassStorage] {
			row(groups, passes, w.Now().Sub(marked).Round(time.Second))
			return nil
		}
	}
	return errors.New("no successor serves")
}

func simulate(groups int, row func(...any)) error {
	w, err := settled(groups)
	if err != nil {
		return err
	}
	const days = 3
	began := time.Now()
	for range days * 24 {
		w.Advance(time.Hour)
	}
	row(groups, fmt.Sprintf("%.1f", days/time.Since(began).Seconds()))
	return nil
}
