package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/term"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// podHost runs programs in the pods of instances.
type podHost struct {
	pods    backend.Pods
	cluster port.Ref
}

// inPod runs a client program in a pod: it finds the instance in its environment, and the password in a file
// that only the pod has.
const inPod = `PGHOST=$1 PGPORT=$2 PGUSER=postgres PGDATABASE=postgres; PGPASSWORD="$(cat $3)" || exit 125
export PGHOST PGPORT PGUSER PGDATABASE PGPASSWORD; shift 3; exec "$@"`

// exit codes of a shell that has not run a program
const (
	shellCannot  = 126
	shellMissing = 127
)

func (h podHost) run(ctx context.Context, i instance, program string, args []string, s streams) (int, error) {
	pod := kube.PodName(h.cluster.Of(i.Name))
	command := []string{"sh", "-c", inPod, "sh", i.Address, strconv.Itoa(int(i.Port)), kube.PasswordFile, program}
	var said bytes.Buffer
	e := backend.Exec{Namespace: h.cluster.Namespace, Pod: pod, Container: kube.EngineContainer, Command: append(command, args...), In: s.in, Out: s.out, Err: io.MultiWriter(s.err, &said)}
	if in, ok := s.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) { //nolint:gosec // a file descriptor
		e.TTY = true
		before, err := term.MakeRaw(int(in.Fd())) //nolint:gosec // a file descriptor
		if err != nil {
			return 0, err
		}
		defer func() { _ = term.Restore(int(in.Fd()), before) }() //nolint:gosec // a file descriptor
	}
	code, err := h.pods.Exec(ctx, e)
	switch {
	case err != nil:
		return 0, Unreachable.Errorf("pod %s: %.400s", pod, fault.Message(err)) // of an URL with the whole command, the beginning
	case code == shellMissing, code == shellCannot:
		return 0, ProgramMissing.Errorf("%s cannot be run in pod %s", program, pod)
	}
	return code, nil
}

func (h podHost) sources(i instance) []source {
	return []source{h.source(kube.PodName(h.cluster.Of(i.Name)), kube.EngineContainer, i.Name, i.id)}
}

func (h podHost) manager(ctx context.Context) ([]source, error) {
	pods, err := h.pods.Pods(ctx, h.cluster.Namespace, kube.ClusterLabel+"="+h.cluster.Name)
	var all []source
	for _, pod := range pods {
		if slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == kube.ManagerContainer }) {
			all = append(all, h.source(pod.Name, kube.ManagerContainer, pod.Name, managerID))
		}
	}
	return all, err
}

// source is the log of a container.
func (h podHost) source(pod, container, name, id string) source {
	return source{key: pod + "/" + container, name: name, id: id, read: func(ctx context.Context, o logOptions, emit func(line []byte)) error {
		log, err := h.pods.PodLog(ctx, backend.PodLog{Namespace: h.cluster.Namespace, Pod: pod, Container: container, Follow: o.follow})
		if err != nil {
			return fmt.Errorf("the log of pod %s: %w", pod, err)
		}
		defer log.Close()
		return eachLine(log, emit)
	}}
}

// public are the keys of Secrets whose values are none.
var public = []string{"username", "user", "host", "port", "dbname", "database", corev1.TLSCertKey, "ca.crt"}

func (h podHost) secrets(ctx context.Context) ([]string, error) {
	found, err := h.pods.Secrets(ctx, h.cluster.Namespace, kube.ClusterLabel+"="+h.cluster.Name)
	var all []string
	for _, s := range found {
		for key, value := range s.Data {
			if !slices.Contains(public, key) {
				all = append(all, strings.TrimSpace(string(value)))
			}
		}
	}
	return all, err
}

func (h podHost) metrics(ctx context.Context, i instance) ([]byte, error) {
	return h.pods.PodGet(ctx, h.cluster.Namespace, kube.PodName(h.cluster.Of(i.Name)), strconv.Itoa(kube.AgentPort), "metrics")
}

// podSummary is what a report has of a pod: nothing that somebody has written into its template.
type podSummary struct {
	Name       string                   `json:"name"`
	Node       string                   `json:"node,omitempty"`
	Labels     map[string]string        `json:"labels,omitempty"`
	Phase      corev1.PodPhase          `json:"phase"`
	Conditions []corev1.PodCondition    `json:"conditions,omitempty"`
	Containers []corev1.ContainerStatus `json:"containers,omitempty"`
}

func (h podHost) more(ctx context.Context) (map[string]any, error) {
	pods, err := h.pods.Pods(ctx, h.cluster.Namespace, kube.ClusterLabel+"="+h.cluster.Name)
	summaries := []podSummary{}
	for _, p := range pods {
		summaries = append(summaries, podSummary{p.Name, p.Spec.NodeName, p.Labels, p.Status.Phase, p.Status.Conditions, p.Status.ContainerStatuses})
	}
	events, eventsErr := h.pods.Events(ctx, h.cluster.Namespace)
	events = slices.DeleteFunc(events, func(e corev1.Event) bool {
		name := e.InvolvedObject.Name
		return name != h.cluster.Name && !strings.HasPrefix(name, h.cluster.Name+"-")
	})
	for i := range events {
		events[i].ManagedFields = nil
	}
	return map[string]any{"pods.json": summaries, "events.json": events}, errors.Join(err, eventsErr)
}
