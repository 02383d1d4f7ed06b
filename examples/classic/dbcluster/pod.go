package dbcluster

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/compat/utils/k8sutil"
	"github.com/pawl-dev/pawl/compat/wfengine"
)

// Label marks clusters and their pods; its value is the name of the cluster.
const Label = "dbcluster"

// awaitPod creates a pod of a cluster, once, and waits until it is ready.
func awaitPod(ctx context.Context, cluster *Resource, role string) error {
	client, err := k8sutil.GetCorev1Client()
	if err != nil {
		return err
	}
	name := cluster.GetName() + "-" + role
	found, err := client.Pods(cluster.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found, err = client.Pods(cluster.GetNamespace()).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{Label: cluster.GetName()},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cluster.Object(), corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: "registry.k8s.io/pause:3.10"}}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(found.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return wfengine.NewWaitingError() // the cluster owns the pod: its changes wake us
	}
	return nil
}

// pods returns the roles of a cluster's pods, in order.
func pods(ctx context.Context, cluster *Resource) ([]string, error) {
	client, err := k8sutil.GetCorev1Client()
	if err != nil {
		return nil, err
	}
	list, err := client.Pods(cluster.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + cluster.GetName()})
	if err != nil {
		return nil, err
	}
	var roles []string
	for _, pod := range list.Items {
		roles = append(roles, strings.TrimPrefix(pod.Name, cluster.GetName()+"-"))
	}
	slices.Sort(roles)
	return roles, nil
}
