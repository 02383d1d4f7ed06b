package wfengine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/workflow/flowfile/classic"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// WfRuntimeMementoStorage stores texts by key for one resource: your own storage for its flows. It
// has neither fencing nor compare-and-swap, so only one process may use it at a time. The default,
// [GetDefaultMementoStorageFactory], has both.
//
// LoadMementoMap is called before Save. A Save that returns nil must survive a crash.
type WfRuntimeMementoStorage interface {
	Save(mementoKey, mementoContent string) error
	LoadMementoMap(maintenanceTakerName string) (map[string]string, error)
}

// CreateMementoStorageFunc returns the storage of a resource.
type CreateMementoStorageFunc func(resource statemachine.StateResource) (WfRuntimeMementoStorage, error)

// maintainer is a storage that uses a store of Pawl.
type maintainer interface {
	store(m *WfManager, resource statemachine.StateResource) (runstore.Store, error)
}

// maintenanceLock is the name under which the flows of a resource are stored.
func maintenanceLock(resource statemachine.StateResource) string {
	return resource.GetName() + "-workflow"
}

// record is the header of a text.
type record struct {
	key    string
	number int
	flow   string
	status FlowStatusType // empty: damaged
	pawl   json.RawMessage
	text   string
}

func (r record) ended() bool { return r.status == FlowStatusCompleted }

var keyForm = regexp.MustCompile(`^([0-9]{1,9})-(.+)$`)

// recordsOf parses the texts of a resource, the newest first.
func recordsOf(texts map[string]string) []record {
	var all []record
	for key, text := range texts {
		m := keyForm.FindStringSubmatch(key)
		if m == nil {
			continue
		}
		number, _ := strconv.Atoi(m[1])
		r := record{key: key, number: number, flow: m[2], text: text}
		var head struct {
			Status FlowStatusType  `json:"flowStatus"`
			Pawl   json.RawMessage `json:"pawl"`
		}
		if json.Unmarshal([]byte(text), &head) == nil {
			r.status, r.pawl = head.Status, head.Pawl
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b record) int { return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(a.key, b.key)) })
	return all
}

// open finds the one record with which the PolarDB Stack engine would continue: the newest that
// has not ended. That engine ignores an interrupted or damaged record that is followed by another
// one.
func open(all []record) (record, bool) {
	for i, r := range all {
		newest := i == 0 || r.number == all[0].number
		switch {
		case r.ended():
		case (r.status == "" || r.status == FlowStatusFailedCompleted) && !newest:
		default:
			return r, true
		}
	}
	return record{}, false
}

// takeOver imports a record of the PolarDB Stack engine into a store, as a run that continues.
// Repeating it changes nothing.
func (m *WfManager) takeOver(ctx context.Context, store runstore.Store, subject string, r record) error {
	imported, err := m.read(subject, r)
	if err != nil {
		return err
	}
	_, err = imported.Write(ctx, store)
	return err
}

func (m *WfManager) read(subject string, r record) (classic.Imported, error) {
	data, err := json.Marshal(map[string]string{r.key: r.text})
	if err != nil {
		return classic.Imported{}, err
	}
	imported, err := classic.Import(data, classic.ImportOptions{Subject: subject, Flows: m.flows, Actor: "import"})
	if err != nil {
		return imported, fmt.Errorf("the records of %s: %w", subject, err)
	}
	for _, run := range imported.Runs {
		if run.Damage != "" {
			m.Logger.Info("a flow was taken over damaged: it is interrupted", "subject", subject, "record", run.Key, "damage", run.Damage)
			continue
		}
		m.Logger.Info("a flow was taken over", "subject", subject, "record", run.Key, "run", run.Run.ID, "phase", run.Run.Phase, "notes", run.Notes)
	}
	return imported, nil
}
