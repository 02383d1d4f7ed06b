package classic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// ImportOptions of Import. Subject is required.
type ImportOptions struct {
	Subject string          // kind/namespace/name[/uid]: subject of the runs of the ConfigMap
	Flows   []workflow.Flow // flows with which the runs continue
	Actor   string          // actor of the import, for the history
	Now     time.Time       // replaces missing times; default: now
}

// Imported is the content of a ConfigMap.
type Imported struct {
	Runs    []ImportedRun // in the order in which they must be written
	Ignored []string      // keys that are not run records

	definitions []runstore.Definition // definitions of the flows of the runs
}

// ImportedRun is one run record.
type ImportedRun struct {
	Key    string // key in the ConfigMap
	Run    *runtype.Run
	Damage string   // why the record could not be imported; then the run is Paused with INPUT_INVALID
	Notes  []string // doubtful details of the record
}

// Damaged returns the runs that a person must check.
func (i Imported) Damaged() []ImportedRun {
	var damaged []ImportedRun
	for _, run := range i.Runs {
		if run.Damage != "" {
			damaged = append(damaged, run)
		}
	}
	return damaged
}

// Import reads the run records of a ConfigMap. A completed run becomes Succeeded, whatever else is
// wrong with its record. A failedAndCompleted run becomes Paused at its first step that is not
// completed. All other runs continue at that step. An invalid record becomes Paused with
// INPUT_INVALID and without done steps: a resume starts it at its first step. The id is computed
// from subject, flow and key, so the same record always has the same id.
//
// It returns an error only for the file as a whole.
func Import(data []byte, o ImportOptions) (Imported, error) {
	if strings.Count(o.Subject, "/") < 2 {
		return Imported{}, runtype.InputInvalid.Errorf("subject %q is not kind/namespace/name", o.Subject)
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	o.Now = o.Now.UTC()
	all, err := entries(data)
	if err != nil {
		return Imported{}, runtype.InputInvalid.Errorf("%w", err)
	}
	var imported Imported
	for _, e := range all {
		if e.number < 0 {
			imported.Ignored = append(imported.Ignored, e.key)
			continue
		}
		imported.Runs = append(imported.Runs, o.read(e))
	}
	for _, flow := range o.Flows {
		if d, err := workflow.DefinitionOf(flow); err == nil && slices.ContainsFunc(imported.Runs, func(r ImportedRun) bool { return r.Run.Hash == d.Hash }) {
			imported.definitions = append(imported.definitions, d)
		}
	}
	imported.order()
	return imported, nil
}

// order puts ended runs first and damaged runs last, so that a run that can continue does not wait
// in the queue of its subject behind one that a person must check.
func (i *Imported) order() {
	rank := func(r ImportedRun) int {
		switch {
		case r.Run.Phase.Final():
			return 0
		case r.Damage != "":
			return 3
		case r.Run.Phase == runtype.Paused:
			return 2
		}
		return 1
	}
	var sorted []ImportedRun
	for want := range 4 {
		for _, r := range i.Runs {
			if rank(r) == want {
				sorted = append(sorted, r)
			}
		}
	}
	i.Runs = sorted
}

func (o ImportOptions) read(e entry) ImportedRun {
	var r record
	err := json.Unmarshal(e.value, &r)
	switch {
	case err != nil:
		return o.damaged(e, "the record is not valid JSON: %v", err)
	case r.FlowName != "" && r.FlowName != e.flow && r.FlowStatus != completed:
		return o.damaged(e, "the record is of flow %s, its key says %s", r.FlowName, e.flow)
	case r.FlowStatus == "":
		return o.damaged(e, "the record has no flowStatus")
	}
	return o.convert(e, r)
}

// damaged returns a run that a person must check.
func (o ImportOptions) damaged(e entry, format string, args ...any) ImportedRun {
	run := o.run(e)
	why := fmt.Sprintf(format, args...)
	run.Phase, run.State.PausedAt = runtype.Paused, o.Now
	run.State.Stop = &runtype.Stop{Verb: runtype.VerbPause, Actor: o.Actor, Reason: "the imported record is damaged: " + why, At: o.Now}
	run.Fault = &runtype.Fault{Code: runtype.InputInvalid.Code, Message: e.key + ": " + why, At: o.Now}
	return ImportedRun{Key: e.key, Run: run, Damage: why}
}

// run creates the run of a record without its state.
func (o ImportOptions) run(e entry) *runtype.Run {
	run := &runtype.Run{
		ID: workflow.RunID(o.Subject, e.flow, e.key), Flow: e.flow, Subject: o.Subject, RequestID: e.key, Actor: o.Actor,
		Reason: "imported", Input: json.RawMessage("{}"), Phase: runtype.Running, CreatedAt: o.Now,
	}
	if flow := o.flow(e.flow); flow != nil {
		run.Version = flow.Version
		if hash, err := workflow.Hash(*flow); err == nil {
			run.Hash = hash
		}
	}
	return run
}

func (o ImportOptions) flow(name string) *workflow.Flow {
	for i := range o.Flows {
		if o.Flows[i].Name == name {
			return &o.Flows[i]
		}
	}
	return nil
}

// convert creates the checkpoint of a valid record.
func (o ImportOptions) convert(e entry, r record) ImportedRun {
	made := ImportedRun{Key: e.key, Run: o.run(e)}
	run, flow, over := made.Run, o.flow(e.flow), r.FlowStatus == completed
	if r.FlowName != "" && r.FlowName != e.flow {
		made.Notes = append(made.Notes, fmt.Sprintf("the record is of flow %s, its key says %s", r.FlowName, e.flow))
	}
	input, err := contextOf(r.InitContext)
	switch {
	case err != nil:
		err = fmt.Errorf("initContext: %w", err)
	case len(input) > runtype.MaxInput:
		err = fmt.Errorf("initContext has %d bytes, the limit is %d", len(input), runtype.MaxInput)
	}
	switch {
	case err != nil && over: // it has ended: its input is not needed
		made.Notes = append(made.Notes, err.Error())
	case err != nil:
		return o.damaged(e, "%v", err)
	case flow == nil && !over:
		return o.damaged(e, "no flow %s is loaded: load it and import again, or drop the run", e.flow)
	case input != nil:
		run.Input = input
	}
	if flow != nil && flow.Input != nil && !over {
		if err := flow.Input.Check(run.Input); err != nil {
			return o.damaged(e, "initContext does not fit the flow's input: %v", err)
		}
	}
	if at := timeOf(r.StartTime); !at.IsZero() {
		run.CreatedAt, run.StartedAt = at, at
	}
	if len(r.RunningSteps) > 0 && run.StartedAt.IsZero() {
		run.StartedAt = run.CreatedAt
		made.Notes = append(made.Notes, "startTime is missing or unreadable")
	}
	open, err := o.steps(&made, r, flow, over)
	if err != nil {
		return o.damaged(e, "%v", err)
	}
	switch {
	case over:
		run.Phase, run.EndedAt = runtype.Succeeded, o.Now
		if at := timeOf(r.CompleteTime); !at.IsZero() {
			run.EndedAt = at
		}
	case r.FlowStatus == failedAndCompleted:
		o.pause(&made, r, open)
	}
	return made
}

// pause leaves the run at its first step that is not completed.
func (o ImportOptions) pause(made *ImportedRun, r record, open string) {
	run := made.Run
	at := timeOf(r.CompleteTime)
	if at.IsZero() {
		at = o.Now
	}
	message := r.ErrorMessage
	if message == "" {
		message = "the run was interrupted"
	}
	run.Phase, run.State.PausedAt = runtype.Paused, at
	run.Fault = &runtype.Fault{Code: fault.Unknown.Code, Message: message, Step: open, At: at}
	if open == "" {
		run.State.Stop = &runtype.Stop{Verb: runtype.VerbPause, Actor: o.Actor, Reason: message, At: at}
		return
	}
	attempts := 1
	for _, s := range r.RunningSteps {
		if s.StepName == leafName(open) {
			attempts = s.attempts()
		}
	}
	run.Fault.Attempt = attempts
	run.State.Ord++
	failure := *run.Fault
	run.Put(&runtype.StepRecord{Name: open, Phase: runtype.StepFailed, Ord: run.State.Ord, Attempt: attempts,
		StartedAt: at, AttemptAt: at, EndedAt: at, Fault: &failure})
}

// steps writes the records of completed steps and finds the first one that is
// not completed.
func (o ImportOptions) steps(made *ImportedRun, r record, flow *workflow.Flow, over bool) (open string, err error) {
	if flow == nil {
		return "", nil
	}
	run := made.Run
	leaves := leavesOf(flow.Steps, "")
	done := map[string]stepRecord{}
	nth := map[string]int{}
	for _, s := range r.RunningSteps {
		instance := pick(leaves, s.StepName, nth[s.StepName])
		nth[s.StepName]++
		switch {
		case instance != "" && s.StepStatus == completed:
			done[instance] = s
		case instance == "" && s.StepStatus == completed && !over:
			return "", fmt.Errorf("step %q is completed, but flow %s has no such step", s.StepName, flow.Name)
		case instance == "":
			made.Notes = append(made.Notes, fmt.Sprintf("flow %s has no step %q", flow.Name, s.StepName))
		}
	}
	for _, leaf := range leaves {
		s, ok := done[leaf]
		if !ok {
			if open == "" {
				open = leaf
			}
			continue
		}
		if open != "" && !over {
			made.Notes = append(made.Notes, fmt.Sprintf("%s is completed although %s before it is not: it is not executed again", leaf, open))
		}
		output, err := contextOf(s.ContextOutput)
		if err == nil && len(output) > runtype.MaxOutputRaised {
			err = fmt.Errorf("it has %d bytes, the limit is %d", len(output), runtype.MaxOutputRaised)
		}
		if err != nil {
			if !over {
				return "", fmt.Errorf("contextOutput of %s: %w", s.StepName, err)
			}
			made.Notes = append(made.Notes, fmt.Sprintf("contextOutput of %s: %v", s.StepName, err))
		}
		started, ended := timeOf(s.StepStartTime), timeOf(s.LastStepCompleteTime)
		if started.IsZero() {
			started = run.StartedAt
		}
		if ended.IsZero() {
			ended = started
		}
		run.State.Ord++
		run.Put(&runtype.StepRecord{Name: leaf, Phase: runtype.StepDone, Ord: run.State.Ord, Attempt: s.attempts(),
			StartedAt: started, AttemptAt: started, EndedAt: ended, Output: output})
	}
	return open, nil
}

// leavesOf returns the instance names of the steps without inner steps, in order. Steps in a loop
// have no name before the run reaches the loop.
func leavesOf(steps []workflow.Step, path string) []string {
	var leaves []string
	for _, s := range steps {
		name := path + s.Name
		switch {
		case s.ForEach != nil:
		case s.Steps == nil:
			leaves = append(leaves, name)
		default:
			for _, part := range [][]workflow.Step{alone(s.Open), s.Steps, alone(s.Close)} {
				leaves = append(leaves, leavesOf(part, name+"/")...)
			}
		}
	}
	return leaves
}

func alone(s *workflow.Step) []workflow.Step {
	if s == nil {
		return nil
	}
	return []workflow.Step{*s}
}

// pick returns the nth step with a name, because that engine identifies steps by name only.
func pick(leaves []string, name string, nth int) string {
	for _, leaf := range leaves {
		if leaf == name || leafName(leaf) == name {
			if nth == 0 {
				return leaf
			}
			nth--
		}
	}
	return ""
}

func leafName(instance string) string {
	name := instance[strings.LastIndexByte(instance, '/')+1:]
	name, _, _ = strings.Cut(name, "#")
	return name
}
