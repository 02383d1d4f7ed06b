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
	"github.com/pawl-dev/pawl/workflow/places"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// placesKey is the key of the ConfigMap that keeps the places of all limits of steps: JSON, documents by key. One
// object, because no transaction spans two, and a step may have several keys.
const placesKey = "places.json"

func (s *Store) placesRef() client.Ref {
	return client.Ref{Resource: "configmaps", Namespace: s.o.Namespace, Name: "pawl-places"}
}

// readPlaces returns the documents and the version of their object; "" if there is none.
func (s *Store) readPlaces(ctx context.Context) (documents map[string][]byte, version string, err error) {
	var m corev1.ConfigMap
	documents = map[string][]byte{}
	err = s.client.Get(ctx, s.placesRef(), &m)
	if client.IsNotFound(err) {
		return documents, "", nil
	}
	if err != nil {
		return nil, "", client.StoreError(ctx, "reading the places of limits", err)
	}
	if data := m.BinaryData[placesKey]; len(data) > 0 {
		if err := json.Unmarshal(data, &documents); err != nil {
			return nil, "", runstore.StoreCorrupt.Errorf("the places of limits (ConfigMap %s/%s): %w", m.Namespace, m.Name, err)
		}
	}
	return documents, m.ResourceVersion, nil
}

// ChangePlaces implements runstore.PlaceStore. The clock is that of this process: those of workers may differ by up to places.Skew.
func (s *Store) ChangePlaces(ctx context.Context, keys []string, change func(time.Time, [][]byte) ([][]byte, error)) error {
	for try := 0; ; try++ {
		all, version, err := s.readPlaces(ctx)
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
			maps.DeleteFunc(all, func(_ string, document []byte) bool { return places.IsOver(time.Now(), document) })
		}
		err = s.writePlaces(ctx, all, version)
		if !client.IsConflict(err) && !client.IsExisting(err) && !client.IsNotFound(err) {
			return client.StoreError(ctx, "writing the places of limits", err)
		}
		select { // another worker was faster
		case <-time.After(time.Duration(rand.Int64N(int64(min(try+1, 20)) * int64(10*time.Millisecond)))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) writePlaces(ctx context.Context, all map[string][]byte, version string) error {
	data, err := client.Encode(all)
	if err != nil {
		return err
	}
	r := s.placesRef()
	binary := map[string]string{placesKey: base64.StdEncoding.EncodeToString(data)}
	if version == "" {
		_, err = s.client.Post(ctx, r, format.Tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": format.NewMeta(r.Name, r.Namespace, map[string]string{format.LabelKind: "places"}), "binaryData": binary})
		return err
	}
	body, err := client.Encode(format.Tree{"metadata": format.Tree{"resourceVersion": version, "managedFields": client.Untracked}, "binaryData": binary})
	if err != nil {
		return err
	}
	_, err = s.client.Patch(ctx, r, "", body)
	return err
}

// Places implements runstore.PlaceStore.
func (s *Store) Places(ctx context.Context, after string, limit int) (list []runstore.KeyPlaces, err error) {
	all, _, err := s.readPlaces(ctx)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key > after && len(list) < cmp.Or(limit, 1000) {
			list = append(list, runstore.KeyPlaces{Key: key, Document: all[key]})
		}
	}
	return list, err
}
