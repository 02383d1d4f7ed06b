package kube

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
)

// userParameters caches the ConfigMaps <name>-user-params. They are read, not watched: a watch of
// names that are not known beforehand needs the permission to see all ConfigMaps (ADR 0076).
type userParameters struct {
	mu    sync.Mutex
	known map[client.ObjectKey]parametersOf
}

// parametersOf are the parameters for a version of an object, as read at a time.
type parametersOf struct {
	uid     types.UID
	version string
	at      time.Time
	data    map[string]string
}

// parametersAge is how long cached parameters are used for an object that does not change. Any
// change of the object, such as the annotation flushParams, causes a new read.
const parametersAge = 5 * time.Minute

func (p *userParameters) of(ctx context.Context, from client.Reader, obj *mpd.MPDCluster) (map[string]string, error) {
	key, now := client.ObjectKeyFromObject(obj), time.Now()
	p.mu.Lock()
	last, ok := p.known[key]
	p.mu.Unlock()
	if ok && last.uid == obj.UID && last.version == obj.ResourceVersion && now.Sub(last.at) < parametersAge {
		return maps.Clone(last.data), nil
	}
	params := &corev1.ConfigMap{}
	if err := from.Get(ctx, client.ObjectKey{Namespace: obj.Namespace, Name: obj.Name + "-user-params"}, params); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[client.ObjectKey]parametersOf{}
	}
	p.known[key] = parametersOf{obj.UID, obj.ResourceVersion, now, params.Data}
	return maps.Clone(params.Data), nil
}

func (p *userParameters) forget(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, key)
}
