package runstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/limit"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// stepLimitsKey is the key of the ConfigMap that keeps the limits of steps: JSON, documents by key. One
// object, because no transaction spans two, and a step may have several keys.
const stepLimitsKey = "limits.json"

func (s *Store) stepLimitsRef() client.Ref {
	return client.Ref{Resource: "configmaps", Namespace: s.o.Namespace, Name: "pawl-step-limits"}
}

// readStepLimits returns the documents and the version of their object; "" if there is none.
func (s *Store) readStepLimits(ctx context.Context) (documents map[string][]byte, version string, err error) {
	var m corev1.ConfigMap
	documents = map[string][]byte{}
	err = s.client.Get(ctx, s.stepLimitsRef(), &m)
	if client.IsNotFound(err) {
		return documents, "", nil
	}
	if err != nil {
		return nil, "", client.StoreError(ctx, "reading the limits of steps", err)
	}
	if data := m.BinaryData[stepLimitsKey]; len(data) > 0 {
		if err := json.Unmarshal(data, &documents); err != nil {
			return nil, "", runstore.StoreCorrupt.Errorf("the limits of steps (ConfigMap %s/%s): %w", m.Namespace, m.Name, err)
		}
	}
	return documents, m.ResourceVersion, nil
}

// ChangeStepLimits implements runstore.StepLimiter. The clock is that of this process: those of workers may differ by up to limit.Skew.
func (s *Store) ChangeStepLimits(ctx context.Context, keys []string, change func(time.Time, [][]byte) ([][]byte, error)) error {
	for try := 0; ; try++ {
		all, version, err := s.readStepLimits(ctx)
		if err != nil {
			return err
		}
		old := make([][]byte, len(keys))
		for i, key := range keys {
			old[i] = bytes.Clone(all[key])
		}
		documents, err := change(time.Now().UTC(), old)
		if err != nil {
			return err
		}
		same, before := true, len(all)
		for i, key := range keys {
			if bytes.Equal(all[key], documents[i]) {
				continue
			}
			same = false
			if all[key] = documents[i]; documents[i] == nil {
				delete(all, key)
			}
		}
		if same {
			return nil
		}
		if len(all) > before { // the object must not grow with keys that nobody uses any more
			maps.DeleteFunc(all, func(_ string, document []byte) bool { return limit.IsOver(time.Now(), document) })
		}
		err = s.writeStepLimits(ctx, all, version)
		if !client.IsConflict(err) && !client.IsExisting(err) && !client.IsNotFound(err) {
			return client.StoreError(ctx, "writing the limits of steps", err)
		}
		select { // another worker was faster
		case <-time.After(time.Duration(rand.Int64N(int64(min(try+1, 20)) * int64(10*time.Millisecond)))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) writeStepLimits(ctx context.Context, all map[string][]byte, version string) error {
	data, err := client.Encode(all)
	if err != nil {
		return err
	}
	r := s.stepLimitsRef()
	binary := map[string]string{stepLimitsKey: base64.StdEncoding.EncodeToString(data)}
	if version == "" {
		_, err = s.client.Post(ctx, r, format.Tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": format.NewMeta(r.Name, r.Namespace, map[string]string{format.LabelKind: "step-limits"}), "binaryData": binary})
		return err
	}
	body, err := client.Encode(format.Tree{"metadata": format.Tree{"resourceVersion": version, "managedFields": client.Untracked}, "binaryData": binary})
	if err != nil {
		return err
	}
	_, err = s.client.Patch(ctx, r, "", body)
	return err
}

// StepLimits implements runstore.StepLimiter.
func (s *Store) StepLimits(ctx context.Context, after string, limit int) (list []runstore.KeyState, err error) {
	all, _, err := s.readStepLimits(ctx)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key > after && len(list) < cmp.Or(limit, 1000) {
			list = append(list, runstore.KeyState{Key: key, Document: all[key]})
		}
	}
	return list, err
}
