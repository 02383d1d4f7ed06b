package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RootVariable is the environment variable with a container's root folder. All processes
// of a container have it.
const RootVariable = "CONTAINER_ROOT"

// environment returns the variables of a container in their order: envFrom, then env,
// where $(NAME) refers to an earlier one. base holds the existing variables.
func (k *Kubelet) environment(ctx context.Context, pod *corev1.Pod, c *corev1.Container, base map[string]string) (map[string]string, error) {
	vars := map[string]string{}
	for _, from := range c.EnvFrom {
		values, err := k.source(ctx, pod.Namespace, from)
		if err != nil {
			return nil, err
		}
		for name, value := range values {
			vars[from.Prefix+name] = value
		}
	}
	for _, e := range c.Env {
		value, ok, err := k.value(ctx, pod, c, e)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", e.Name, err)
		}
		if !ok {
			continue
		}
		if e.ValueFrom == nil {
			value = expand(value, vars, base)
		}
		vars[e.Name] = value
	}
	return vars, nil
}

func (k *Kubelet) source(ctx context.Context, namespace string, from corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		m, err := k.client.CoreV1().ConfigMaps(namespace).Get(ctx, from.ConfigMapRef.Name, metav1.GetOptions{})
		if missing(err, from.ConfigMapRef.Optional) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return m.Data, nil
	case from.SecretRef != nil:
		s, err := k.client.CoreV1().Secrets(namespace).Get(ctx, from.SecretRef.Name, metav1.GetOptions{})
		if missing(err, from.SecretRef.Optional) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return texts(s.Data), nil
	}
	return nil, nil
}

// value returns the value of a variable; false if it is optional and missing.
func (k *Kubelet) value(ctx context.Context, pod *corev1.Pod, c *corev1.Container, e corev1.EnvVar) (string, bool, error) {
	from := e.ValueFrom
	switch {
	case from == nil:
		return e.Value, true, nil
	case from.FieldRef != nil:
		value, err := field(pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := amount(pod, c, from.ResourceFieldRef)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		m, err := k.client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return "", false, ignoreIf(missing(err, ref.Optional), err)
		}
		value, ok := m.Data[ref.Key]
		return value, ok, ignoreIf(ok || optional(ref.Optional), fmt.Errorf("the ConfigMap %s has no key %s", ref.Name, ref.Key))
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		s, err := k.client.CoreV1().Secrets(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return "", false, ignoreIf(missing(err, ref.Optional), err)
		}
		value, ok := s.Data[ref.Key]
		return string(value), ok, ignoreIf(ok || optional(ref.Optional), fmt.Errorf("the Secret %s has no key %s", ref.Name, ref.Key))
	}
	return "", false, fmt.Errorf("the fake kubelet does not know its source")
}

// field returns a field of a pod as text.
func field(pod *corev1.Pod, path string) (string, error) {
	if name, key, ok := strings.Cut(path, "['"); ok {
		key = strings.TrimSuffix(key, "']")
		switch name {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return pod.Status.PodIP, nil
	case "status.hostIP", "status.hostIPs":
		return pod.Status.HostIP, nil
	}
	return "", fmt.Errorf("the field %s is none that a pod gives to its containers", path)
}

func lines(m map[string]string) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&out, "%s=%s\n", key, strconv.Quote(m[key]))
	}
	return out.String()
}

// amount returns a request or limit, rounded up in units of the divisor; an unset limit is
// the node's.
func amount(pod *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	for _, other := range pod.Spec.Containers {
		if other.Name == ref.ContainerName {
			c = &other
		}
	}
	if c == nil {
		return "", fmt.Errorf("there is no container %q", ref.ContainerName)
	}
	kind, name, ok := strings.Cut(ref.Resource, ".")
	if !ok {
		return "", fmt.Errorf("%q is not a resource", ref.Resource)
	}
	list := c.Resources.Limits
	if kind == "requests" {
		list = c.Resources.Requests
	}
	quantity, ok := list[corev1.ResourceName(name)]
	if !ok && kind == "limits" {
		quantity = map[string]resource.Quantity{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi")}[name]
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == "cpu" {
		return strconv.FormatInt(ceil(quantity.MilliValue(), divisor.MilliValue()), 10), nil
	}
	return strconv.FormatInt(ceil(quantity.Value(), divisor.Value()), 10), nil
}

func ceil(n, by int64) int64 { return (n + by - 1) / by }

// expand replaces $(NAME) by the variable; an unknown one stays unchanged, and $$ is a
// dollar sign.
func expand(s string, scopes ...map[string]string) string {
	var out strings.Builder
	for at := 0; at < len(s); at++ {
		if s[at] != '$' || at+1 == len(s) {
			out.WriteByte(s[at])
			continue
		}
		if s[at+1] == '$' {
			out.WriteByte('$')
			at++
			continue
		}
		end := strings.IndexByte(s[at:], ')')
		if s[at+1] != '(' || end < 0 {
			out.WriteByte('$')
			continue
		}
		reference := s[at : at+end+1]
		value, ok := lookup(reference[2:len(reference)-1], scopes)
		if !ok {
			value = reference
		}
		out.WriteString(value)
		at += end
	}
	return out.String()
}

func lookup(name string, scopes []map[string]string) (string, bool) {
	for _, scope := range scopes {
		if value, ok := scope[name]; ok {
			return value, true
		}
	}
	return "", false
}

func optional(o *bool) bool { return o != nil && *o }

func missing(err error, o *bool) bool { return apierrors.IsNotFound(err) && optional(o) }

func ignoreIf(fine bool, err error) error {
	if fine {
		return nil
	}
	return err
}

func texts(data map[string][]byte) map[string]string {
	out := make(map[string]string, len(data))
	for key, value := range data {
		out[key] = string(value)
	}
	return out
}
