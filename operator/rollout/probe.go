package rollout

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

const (
	outputKept = 4 << 10                // bytes of the output of a probe
	freshPause = 200 * time.Millisecond // at least, between two probes of a pod whose answer is needed now
)

// probeOf is one probe of one pod.
type probeOf struct{ probe, uid string }

// probing is what a probe of a pod has shown.
type probing struct {
	underWay          bool
	ready             bool // the pod was ready, once
	asked, next       time.Time
	succeeded, failed int // in a row
	facts             rollout.ProbeFacts
}

// podAddress is where a pod is asked.
type podAddress struct {
	namespace, name, uid, ip, container string
	ready                               bool
}

// addresses are those of pods, as the watch of what moves shows them. Pods that it does not show are
// left out.
func (p *pass) addresses(names []string) (all []podAddress) {
	for _, name := range names {
		pod := &corev1.Pod{}
		for _, watched := range p.reader.dependents {
			if err := watched.Get(context.Background(), client.ObjectKey{Namespace: p.key.Namespace, Name: name}, pod); err != nil {
				continue
			}
			a := podAddress{namespace: pod.Namespace, name: pod.Name, uid: string(pod.UID), ip: pod.Status.PodIP}
			for _, c := range pod.Status.Conditions {
				a.ready = a.ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}
			if len(pod.Spec.Containers) > 0 {
				a.container = pod.Spec.Containers[0].Name
			}
			all = append(all, a)
			break
		}
	}
	return all
}

// probed completes the pods with what their probes have shown, and with the role that a probe tells.
func (p *pass) probed() {
	mine := p.memory.asked
	mine.mu.Lock()
	defer mine.mu.Unlock()
	pods := p.facts.Pods
	for i := range pods {
		for _, r := range p.plan.Probes {
			state := mine.probes[probeOf{r.Name, pods[i].UID}]
			if state == nil || state.facts.At.IsZero() {
				continue
			}
			if pods[i].Probes == nil {
				pods[i].Probes = map[string]rollout.ProbeFacts{}
			}
			pods[i].Probes[r.Name] = state.facts
			if o := p.plan.Order; o != nil && o.RoleProbe == r.Name && state.facts.Passing {
				pods[i].Role = state.facts.Value
			}
		}
	}
}

// probe asks the pods whose time has come.
func (p *pass) probe(a rollout.Ask) {
	mine := p.memory.asked
	mine.mu.Lock()
	defer mine.mu.Unlock()
	for _, pod := range p.addresses(a.Pods) {
		of := probeOf{a.Probe.Name, pod.uid}
		state := mine.probes[of]
		if state == nil {
			state = &probing{}
			mine.probes[of] = state
		}
		if mine.resting && (state.facts.Passing || state.facts.Failed) { // it is asked anew when the hold ends
			continue
		}
		next := state.next
		if a.Fresh || pod.ready && !state.ready { // it is ready since a moment ago
			next = state.asked.Add(min(freshPause, time.Duration(a.Probe.Period)))
		}
		if state.underWay || p.now.Before(next) {
			p.again(next.Sub(p.now))
			continue
		}
		state.underWay, state.ready = true, state.ready || pod.ready
		p.sendProbe(*a.Probe, pod, state)
	}
}

func (p *pass) sendProbe(r rollout.Probe, pod podAddress, state *probing) {
	o, mine, key := p.Operator, p.memory.asked, p.key
	o.calls.add(key, func(ctx context.Context) {
		asked := o.now()
		value, err := o.probe(ctx, r, pod)
		if ctx.Err() != nil {
			return
		}
		o.metrics.asked(rollout.Ask{Kind: rollout.AskProbe}, rollout.Answer{Open: err == nil})
		mine.mu.Lock()
		state.result(r, value, err, asked)
		state.underWay, state.asked, state.next = false, asked, o.now().Add(time.Duration(r.Period))
		mine.mu.Unlock()
		o.wake(key) // for its facts, and for its next turn
	})
}

// result counts one answer, as the thresholds of the probe say. Until they are reached the value stays
// what it was: a role is none the less known because one attempt fails. A pod that starts may fail as
// often as it likes: that it is not ready is counted without a probe.
func (s *probing) result(r rollout.Probe, value string, err error, asked time.Time) {
	if err == nil {
		s.succeeded, s.failed, s.facts.Value, s.facts.At = s.succeeded+1, 0, value, asked
		if s.succeeded >= r.SuccessThreshold {
			s.facts.Passing, s.facts.Failed = true, false
		}
		return
	}
	s.succeeded = 0
	if s.ready {
		s.failed++
	} else {
		s.facts.Passing = false
	}
	if s.failed >= r.FailureThreshold {
		s.facts.Passing, s.facts.Failed = false, true
	}
	if !s.facts.Passing {
		s.facts.Value, s.facts.At = fault.Message(err), asked
	}
}

// probe asks a pod once.
func (o *Operator) probe(ctx context.Context, r rollout.Probe, pod podAddress) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.Timeout))
	defer cancel()
	value, err := "", error(nil)
	switch {
	case r.Exec != nil:
		value, err = o.exec(ctx, pod, *r.Exec)
	case r.HTTP != nil:
		value, err = o.probeHTTP(ctx, pod, *r.HTTP, "")
	case r.TCP != nil:
		err = pod.dial(ctx, r.TCP.Port)
	}
	if err != nil {
		return "", err
	}
	return value, parses(r.Parse, value)
}

// parses reports a value that is not what the probe says.
func parses(mode rollout.ParseMode, value string) error {
	switch mode {
	case rollout.ParseNumber:
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return fmt.Errorf("%.60q is no number", value)
		}
	case rollout.ParseJSON:
		if !json.Valid([]byte(value)) {
			return fmt.Errorf("%.60q is no JSON", value)
		}
	case rollout.ParseExit:
	}
	return nil
}

func (a podAddress) dial(ctx context.Context, port int) error {
	if a.ip == "" {
		return errors.New("the pod has no address")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(a.ip, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return conn.Close()
}

// probeHTTP asks the address of a pod, and nothing else: redirects are not followed. As the kubelet
// does, it does not check certificates, and takes 200 to 399 for a success.
func (o *Operator) probeHTTP(ctx context.Context, pod podAddress, h rollout.HTTPProbe, key string) (string, error) {
	addr, err := netip.ParseAddr(pod.ip)
	if err != nil {
		return "", errors.New("the pod has no address")
	}
	scheme, path := h.Scheme, h.Path
	if scheme == "" {
		scheme = "http"
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	method := http.MethodGet
	if key != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.ToLower(scheme)+"://"+net.JoinHostPort(pod.ip, strconv.Itoa(h.Port))+path, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("User-Agent", "pawl")
	for name, value := range h.Headers {
		if strings.EqualFold(name, "Host") {
			request.Host = value
		}
		request.Header.Set(name, value)
	}
	if key != "" {
		request.Header.Set(keyHeader, key)
	}
	client := o.egress.Allowing(addr).Client(egress.ClientOptions{TLS: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}) //nolint:gosec // as the kubelet
	response, err := client.Do(request)
	if err != nil {
		return "", callError(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, outputKept))
	if err != nil {
		return "", callError(err)
	}
	text := strings.TrimSpace(string(body))
	if response.StatusCode < 200 || response.StatusCode > 399 {
		return "", fmt.Errorf("status %d: %.256s", response.StatusCode, text)
	}
	if h.JSONPath == "" {
		return text, nil
	}
	return pick(h.JSONPath, body)
}

// pick is the value at a path of kubectl, with or without braces.
func pick(path string, body []byte) (string, error) {
	var decoded any
	if err := json.Unmarshal(body, &decoded); err != nil {
		return "", errors.New("the answer is no JSON")
	}
	if !strings.HasPrefix(path, "{") {
		path = "{" + path + "}"
	}
	j := jsonpath.New("probe")
	if err := j.Parse(path); err != nil {
		return "", fmt.Errorf("jsonPath %s: %w", path, err)
	}
	var text strings.Builder
	if err := j.Execute(&text, decoded); err != nil {
		return "", fmt.Errorf("jsonPath %s: %w", path, err)
	}
	return text.String(), nil
}
