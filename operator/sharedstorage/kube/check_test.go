package kube

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The quotas of the namespace are checked before a change begins: what two more instances need
// must fit under each name that a quota may have for it. A quota for some pods only, and one of
// another namespace, are left to the API server.
func TestFinding14AResourceQuotaIsAskedFirst(t *testing.T) {
	instance := port.Instance{Version: "15.18", Class: port.Class{Name: "small", CPU: 1000, Memory: 1 << 30}}
	for name, q := range map[string]struct {
		hard, used string // values of the quota
		what       corev1.ResourceName
		namespace  string
		scopes     []corev1.ResourceQuotaScope
		fits       bool
	}{
		"pods fit":                 {"5", "3", corev1.ResourcePods, blue.Namespace, nil, true},
		"one pod too many":         {"5", "4", corev1.ResourcePods, blue.Namespace, nil, false},
		"one object too many":      {"5", "4", "count/pods", blue.Namespace, nil, false},
		"claims fit":               {"5", "3", corev1.ResourcePersistentVolumeClaims, blue.Namespace, nil, true},
		"one claim too many":       {"5", "4", corev1.ResourcePersistentVolumeClaims, blue.Namespace, nil, false},
		"one claim object":         {"5", "4", "count/persistentvolumeclaims", blue.Namespace, nil, false},
		"memory fits":              {"4Gi", "2Gi", corev1.ResourceLimitsMemory, blue.Namespace, nil, true},
		"too much memory":          {"4Gi", "2049Mi", corev1.ResourceLimitsMemory, blue.Namespace, nil, false},
		"too much asked":           {"4Gi", "2049Mi", corev1.ResourceRequestsMemory, blue.Namespace, nil, false},
		"too much by its old name": {"4Gi", "2049Mi", corev1.ResourceMemory, blue.Namespace, nil, false},
		"CPU fits":                 {"4", "2", corev1.ResourceRequestsCPU, blue.Namespace, nil, true},
		"too much CPU":             {"4", "2001m", corev1.ResourceRequestsCPU, blue.Namespace, nil, false},
		"storage fits":             {"50Gi", "30Gi", corev1.ResourceRequestsStorage, blue.Namespace, nil, true},
		"too much storage":         {"50Gi", "31Gi", corev1.ResourceRequestsStorage, blue.Namespace, nil, false},
		"nothing of it is needed":  {"1", "1", "count/secrets", blue.Namespace, nil, true},
		"of another namespace":     {"1", "1", corev1.ResourcePods, "other", nil, true},
		"of some pods only":        {"1", "1", corev1.ResourcePods, blue.Namespace, []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}, true},
	} {
		t.Run(name, func(t *testing.T) {
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: q.namespace, Name: "team"}, Spec: corev1.ResourceQuotaSpec{Scopes: q.scopes},
				Status: corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{q.what: resource.MustParse(q.hard)}, Used: corev1.ResourceList{q.what: resource.MustParse(q.used)}}}
			g := newFixture(t, quota)
			err := g.Instances().Check(t.Context(), blue, instance, 2, 10<<30)
			if q.fits {
				g.must(err)
				return
			}
			if fault.Of(err) != port.QuotaExceeded || !strings.Contains(err.Error(), "quota team: "+string(q.what)) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// refusingClient is a client without the permission to list, or with an API server that fails.
type refusingClient struct {
	client.Client
	err error
}

func (r refusingClient) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return r.err
}

// A version without an image is rejected before quotas are read. An operator without the
// permission to read quotas leaves them to the API server; a failed read is an error.
func TestFinding14WhatCannotBeAsked(t *testing.T) {
	g := newFixture(t)
	small := port.Class{CPU: 1000, Memory: 1 << 30}
	away := errors.New("the API server is away")
	g.o.Live = refusingClient{g.o.Client, away}
	if err := g.Instances().Check(t.Context(), blue, port.Instance{Version: "15.99", Class: small}, 1, 10<<30); fault.Of(err) != port.VersionUnsupported {
		t.Errorf("a version without an image: %v", err)
	}
	known := port.Instance{Version: "15.18", Class: small}
	if err := g.Instances().Check(t.Context(), blue, known, 1, 10<<30); !errors.Is(err, away) {
		t.Errorf("an API server that is away: %v", err)
	}
	g.o.Live = refusingClient{g.o.Client, apierrors.NewForbidden(schema.GroupResource{Resource: "resourcequotas"}, "", nil)}
	g.must(g.Instances().Check(t.Context(), blue, known, 1, 10<<30))
}
