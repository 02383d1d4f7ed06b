package foundationdb

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UnknownFields remembers which fields of specs nobody knows, as they change with the generation of an object only. The
// zero value remembers nothing.
type UnknownFields struct {
	mu    sync.Mutex
	known map[types.UID]unknownFields
}

type unknownFields struct {
	generation int64
	paths      []string
}

// manyUnknown are objects of which most are gone.
const manyUnknown = 10_000

// Of returns the paths of an object, which it reads once for each generation.
func (u *UnknownFields) Of(object metav1.Object, read func() ([]string, error)) ([]string, error) {
	u.mu.Lock()
	known, ok := u.known[object.GetUID()]
	u.mu.Unlock()
	if ok && known.generation == object.GetGeneration() {
		return known.paths, nil
	}
	paths, err := read()
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known == nil || len(u.known) >= manyUnknown {
		u.known = map[types.UID]unknownFields{}
	}
	u.known[object.GetUID()] = unknownFields{generation: object.GetGeneration(), paths: paths}
	return paths, nil
}
