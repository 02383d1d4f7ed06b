package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// copies is the number of attempts of a copy that ends with an error.
const copies = 3

const copyScript = `set -e
cd /data
[ ! -d seed ] || exit 0
rm -rf part
pg_basebackup -D part -X stream -c fast --no-password -U postgres
mv part seed`

// copied copies the data of a source into a claim of the cluster, and reports whether they are
// complete. It starts a copy only with again.
func (s *Placement) copied(ctx context.Context, from, to port.Ref, v *volume, again bool) (done bool, message string, err error) {
	pod := &corev1.Pod{}
	err = s.o.Live.Get(ctx, client.ObjectKey{Namespace: to.Namespace, Name: copyName(to)}, pod)
	if apierrors.IsNotFound(err) {
		if !again {
			return false, "the copy was not begun", nil
		}
		return false, "the copy begins", s.copy(ctx, from, to, v)
	}
	if err != nil {
		return false, "", err
	}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return again, "the data are there", s.finish(ctx, again, pod)
	case pod.Status.Phase == corev1.PodFailed:
		return false, "", port.StorageFailed.Errorf("the data of %s could not be copied: pod %s has failed: %s", from, pod.Name, pod.Status.Message)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.LastTerminationState.Terminated; t != nil && c.RestartCount >= copies {
			return false, "", port.StorageFailed.Errorf("the data of %s could not be copied: %s", from, t.Message)
		}
	}
	return false, "copying the data of " + from.String(), nil
}

// finish removes the pod of a copy.
func (s *Placement) finish(ctx context.Context, again bool, pod *corev1.Pod) error {
	if !again {
		return nil
	}
	return s.remove(ctx, pod)
}

// copy starts a base backup of the writer of a cluster.
func (s *Placement) copy(ctx context.Context, from, to port.Ref, v *volume) error {
	grant, err := s.Storage().grants(from).Read(ctx)
	if err != nil {
		return err
	}
	if grant.Writer == "" {
		return port.CloneSourceMissing.Errorf("cluster %s has no writer", from)
	}
	h, err := s.readInstance(ctx, from, grant.Writer)
	if err != nil {
		return err
	}
	seen, err := s.observe(ctx, h)
	if err != nil {
		return err
	}
	if seen.State != port.Up {
		return port.CloneSourceMissing.Errorf("the writer of cluster %s is %s", from, seen.State)
	}
	claim := s.claim(to, to.Name+"-data", volumeComponent, v.Size)
	if err := s.o.Client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: meta(to, copyName(to), copyComponent)}
	pod.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyOnFailure, AutomountServiceAccountToken: ptr(false), EnableServiceLinks: ptr(false), SecurityContext: podSecurity(s.o.User),
		Containers: []corev1.Container{{
			Name: "copy", Image: seen.Image, Command: []string{"/bin/sh", "-c", copyScript},
			Env: []corev1.EnvVar{
				{Name: "TMPDIR", Value: scratchPath}, {Name: "PGHOST", Value: seen.Address}, {Name: "PGPORT", Value: fmt.Sprint(seen.Port)}, {Name: "PGCONNECT_TIMEOUT", Value: "10"},
				{Name: "PGPASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secretName(from)}, Key: passwordKey}}},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: dataPath}, {Name: "scratch", MountPath: scratchPath}},
			Resources:    helperResources(), SecurityContext: containerSecurity(), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
		Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}},
			emptyDir("scratch"),
		},
	}
	_, err = s.createObject(ctx, to, pod)
	return err
}
