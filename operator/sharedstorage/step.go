package sharedstorage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

//go:embed flows/*.yaml
var files embed.FS

// Flows returns the flows of all states, from flows/*.yaml.
func (o *Operator) Flows() ([]workflow.Flow, error) {
	set, err := flowfile.LoadFS(files, "flows/*.yaml", flowfile.Options{Actions: o.Actions()})
	if err != nil {
		return nil, err
	}
	return set.Flows(), nil
}

// Compile returns the flow of a stored definition, for workflow.Options.
func (o *Operator) Compile(source []byte) (workflow.Flow, error) {
	return flowfile.FromSource(source, flowfile.Options{Actions: o.Actions()})
}

// step does the work of one attempt. It observes the cluster and acts on the difference, so it may run
// twice.
type step func(ctx context.Context, w *work) outcome.Outcome

// steps returns all actions that the flows name, undo actions included.
func steps() map[string]step {
	return map[string]step{
		"InitMeta": initMeta, "CheckSource": checkSource, "CheckBackup": checkBackup, "UpdateRunningStatus": updateRunningStatus,
		"PrepareStorage": prepareStorage, "CloneStorage": cloneStorage, "UncloneStorage": uncloneStorage, "ExpandVolume": expandVolume,
		"AwaitSize": awaitSize, "GrowFileSystem": growFileSystem, "ReleaseStorage": releaseStorage,
		"CreateRwPod": createRwPod, "RemoveUnwritten": removeUnwritten, "AllocateId": withHAOff(allocateID), "CreateReader": withHAOff(createReader), "AwaitCaughtUp": withHAOff(awaitCaughtUp),
		"RemoveCreated": removeCreated, "RemoveInstance": withHAOff(removeInstance), "RemoveInstances": removeInstances, "AwaitReady": withHAOff(awaitReady),
		"CreateTemporary": createTemporary, "RemoveTemporary": removeTemporary, "DetachReader": detachReader, "AttachReader": attachReader,
		"AdoptId": withHAOff(adoptID), "FinishReplace": finishReplace,
		"CreateClusterManager": createManager, "AddToClusterManager": withHAOff(addToManager), "UpgradeClusterManager": createManager,
		"EnsureManagerApart": createManager, "StopClusterManager": stopManager, "DisableHA": disableHA, "EnableHA": enableHA,
		"RecreateInstance": recreateInstance, "RestoreInstance": restoreInstance, "ChooseCandidate": chooseCandidate,
		"CheckCandidate": checkCandidate, "FenceOldWriter": fenceOldWriter, "UnfenceOldWriter": unfenceOldWriter,
		"AwaitCandidateComplete": awaitCandidateComplete, "PromoteCandidate": promoteCandidate, "FollowNewWriter": followNewWriter, "RejoinOldWriter": rejoinOldWriter,
		"PausePoolers": pausePoolers, "ResumePoolers": resumePoolers,
		"CheckImages": checkImages, "CheckTargetNode": checkTargetNode,
		"TakeTopologyLock": takeTopologyLock, "ReleaseTopologyLock": releaseTopologyLock, "AwaitQuietTopology": awaitQuietTopology,
		"ReleaseTemporaries": releaseTemporaries, "ChooseSurvivor": chooseSurvivor, "StopReader": stopReader,
		"RestartInstance": restartInstance, "RestartWriter": restartInstance,
		"ValidateParameters": validateParameters, "ApplyParameters": applyParameters, "ApplyClassParameters": applyClassParameters,
		"RestartIfNeeded": restartIfNeeded, "RecordParameters": recordParameters,
		"RemoveFinalizer": removeFinalizer,
		"SuspendReaders":  suspendReaders, "SuspendWriter": suspendWriter, "VerifyHibernated": verifyHibernated,
		"WakeWriter": wakeWriter, "WakeReaders": wakeReaders,
	}
}

// Actions returns the steps under the names that the flows use.
func (o *Operator) Actions() []workflow.Action {
	var all []workflow.Action
	for name, do := range steps() {
		all = append(all, workflow.Action{Name: name, Do: o.do(do)})
	}
	slices.SortFunc(all, func(a, b workflow.Action) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// work is the context of one attempt.
type work struct {
	o   *Operator
	t   *workflow.Task
	c   *Cluster
	f   *Facts
	in  Input
	ref port.Ref
}

// do prepares the work of a step and runs it.
func (o *Operator) do(s step) workflow.Func {
	return func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		w, err := o.work(ctx, t)
		if err != nil {
			return outcome.Fail(err)
		}
		return s(ctx, w)
	}
}

func (o *Operator) work(ctx context.Context, t *workflow.Task) (*work, error) {
	ref, uid, err := refOf(t.Subject())
	if err != nil {
		return nil, err
	}
	c, err := o.load(ctx, ref)
	if err == nil && uid != "" && c.Ref.UID != uid {
		err = control.NotFoundError(ref)
	}
	if err != nil {
		return nil, err
	}
	w := &work{o: o, t: t, c: c, ref: c.Ref}
	if err := t.Input(&w.in); err != nil {
		return nil, err
	}
	err = w.observe(ctx)
	return w, err
}

// observe reads the facts. It fails without the list of instances, because every step needs it.
func (w *work) observe(ctx context.Context) error {
	w.f = w.o.observe(ctx, w.c)
	w.c.Facts = w.f
	w.o.restore(ctx, w.c)
	for _, what := range []string{factInstances, factVolume} {
		if err := w.f.Unknown[what]; err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// call makes one call of a port, limited by Options.CallTimeout.
func (w *work) call(ctx context.Context, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*w.o.options.CallTimeout)
	defer cancel()
	return call(ctx)
}

func (w *work) ports() port.Ports { return w.o.options.Ports }

// await waits for something that happens by itself. When the next poll would come after the
// deadline of the step's wait, it fails with late instead; with late nil the engine ends the wait
// with WAIT_EXPIRED.
func (w *work) await(every time.Duration, late *fault.Kind, reason, format string, args ...any) outcome.Outcome {
	if waited := w.t.Waited(); waited != nil && late != nil && !waited.Deadline.IsZero() && !w.o.now().Add(every).Before(waited.Deadline) {
		return outcome.Fail(late.Errorf(format, args...).With("step", w.t.Step()))
	}
	return outcome.Wait(every, reason, format, args...)
}

// waited returns how long this step has waited.
func (w *work) waited() time.Duration {
	if waited := w.t.Waited(); waited != nil {
		return w.o.now().Sub(waited.Since)
	}
	return 0
}

// save changes the status of the newest version with compare-and-set.
func (w *work) save(ctx context.Context, change func(c *Cluster)) error {
	for range 5 {
		c, err := w.o.load(ctx, control.Ref{Kind: w.c.Kind, Namespace: w.ref.Namespace, Name: w.ref.Name})
		if err != nil {
			return err
		}
		before := snap(c)
		change(c)
		if err = w.o.save(ctx, c, before); !errors.Is(err, fault.WriteConflict) {
			return err
		}
	}
	return fault.WriteConflict.Errorf("the cluster was changed five times meanwhile")
}

// round returns the round of the step: it rises when a person executes the step again.
func (w *work) round() string {
	key := strings.TrimSuffix(w.t.Key(), "/undo")
	return key[strings.LastIndexByte(key, '/')+1:]
}

// hash returns a short hash of words.
func hash(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:6])
}

// nameOf returns the name of an instance that this run creates for a place. Another run, or
// another round of this one, uses another name.
func (w *work) nameOf(place string) string {
	if round := w.round(); round != "0" {
		return w.namePrefix(place) + "-r" + round
	}
	return w.namePrefix(place)
}

// namePrefix returns the common prefix of all names that this run creates for a place.
func (w *work) namePrefix(place string) string {
	name := w.ref.Name
	if len(name) > 40 {
		name = name[:33] + "-" + hash(name)
	}
	return name + "-" + place + "-" + hash(w.t.RunID(), place)[:5]
}

// madeByRun reports whether this run created the instance for the place.
func (w *work) madeByRun(i *port.Instance, place string) bool {
	return strings.HasPrefix(i.Name, w.namePrefix(place))
}

// placeID returns the place of a step: its parameter id, or the one of the run.
func (w *work) placeID() string {
	var p struct {
		ID string `json:"id"`
	}
	_ = w.t.With(&p) // without parameters the run's place is used
	return cmp.Or(p.ID, w.in.ID)
}
