package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/rollout"
)

const (
	inStatus       = 40 // records that the status keeps
	inConfigMap    = 20 // records of one ConfigMap
	historyDefault = 1000
	// HistoryLabel names the Rollout on the ConfigMaps of its history.
	HistoryLabel = "pawl.dev/rollout-history"
)

// history keeps the records of Rollouts: the newest in their status, the others in ConfigMaps.
type history struct {
	client client.Client
	live   client.Reader
}

// addRecords adds records to the history of a status.
func addRecords(s *api.RolloutStatus, records []rollout.Record) error {
	for _, r := range records {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		var record api.RolloutRecord
		if err := json.Unmarshal(text, &record); err != nil {
			return err
		}
		if s.History == nil {
			s.History = map[string]api.RolloutRecord{}
		}
		s.History[strconv.Itoa(r.Sequence)] = record
	}
	return nil
}

// archive moves the oldest records to ConfigMaps, twenty at a time, before they leave the status. The
// ConfigMaps have names by their first record, so that a repeated pass writes nothing twice.
func (h history) archive(ctx context.Context, r *api.Rollout) error {
	for len(r.Status.History) > inStatus {
		records := sortedRecords(r.Status.History)[:inConfigMap]
		if err := h.create(ctx, r, records); err != nil {
			return err
		}
		for _, record := range records {
			delete(r.Status.History, strconv.Itoa(int(record.Sequence)))
		}
		if first := surplus(r, int(records[0].Sequence)); first > 0 {
			if _, err := h.delete(ctx, r, first); err != nil {
				return err
			}
		}
	}
	return nil
}

// trim deletes the ConfigMaps that a lower limit makes surplus, from the newest down to one that is not
// there. Each pass that sees another spec does it; archive deletes what leaves one by one.
func (h history) trim(ctx context.Context, r *api.Rollout) error {
	if len(r.Status.History) == 0 {
		return nil
	}
	archived := int(sortedRecords(r.Status.History)[0].Sequence) - inConfigMap // the first record of the newest ConfigMap
	for first := surplus(r, archived); first > 0; first -= inConfigMap {
		if there, err := h.delete(ctx, r, first); err != nil || !there {
			return err
		}
	}
	return nil
}

// surplus is the first record of the newest ConfigMap that the limit does not keep, when the newest of
// all begins with a record; 0: there is none.
func surplus(r *api.Rollout, newest int) int {
	limit := historyDefault
	if r.Spec.HistoryLimit != nil {
		limit = int(*r.Spec.HistoryLimit)
	}
	if expired := newest - limit; expired > 0 {
		return firstExpired(expired)
	}
	return 0
}

// delete deletes one ConfigMap, and reports whether it was there.
func (h history) delete(ctx context.Context, r *api.Rollout, first int) (there bool, err error) {
	err = h.client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: historyName(r, first)}})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, controller.Fault(err)
}

// firstExpired is the first record of the ConfigMap with the record of this number.
func firstExpired(number int) int { return number - (number-1)%inConfigMap }

func sortedRecords(history map[string]api.RolloutRecord) []api.RolloutRecord {
	var all []api.RolloutRecord
	for _, record := range history {
		all = append(all, record)
	}
	slices.SortFunc(all, func(a, b api.RolloutRecord) int { return int(a.Sequence - b.Sequence) })
	return all
}

func historyName(r *api.Rollout, first int) string {
	return fmt.Sprintf("%s-history-%d", r.Name, first)
}

func (h history) create(ctx context.Context, r *api.Rollout, records []api.RolloutRecord) error {
	text, err := json.Marshal(records)
	if err != nil {
		return err
	}
	yes := true
	kept := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: historyName(r, int(records[0].Sequence)), Labels: map[string]string{HistoryLabel: r.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: api.GroupVersion.String(), Kind: Kind, Name: r.Name, UID: r.UID}},
		},
		Immutable: &yes,
		Data:      map[string]string{"records": string(text)},
	}
	err = h.client.Create(ctx, kept, client.FieldOwner(workloadOwner))
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return controller.Fault(err)
}

// record reads a record of the history: from the status, or from its ConfigMap; nil: it is not kept.
func (h history) record(ctx context.Context, r *api.Rollout, sequence int) (*api.RolloutRecord, error) {
	if record, ok := r.Status.History[strconv.Itoa(sequence)]; ok {
		return &record, nil
	}
	m := &corev1.ConfigMap{}
	err := h.live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: historyName(r, sequence-(sequence-1)%inConfigMap)}, m)
	switch {
	case errors.Is(err, control.NotFound):
		return nil, nil //nolint:nilnil // documented
	case err != nil:
		return nil, err
	}
	var records []api.RolloutRecord
	if err := json.Unmarshal([]byte(m.Data["records"]), &records); err != nil {
		return nil, err
	}
	for _, record := range records {
		if int(record.Sequence) == sequence {
			return &record, nil
		}
	}
	return nil, nil //nolint:nilnil // documented
}
