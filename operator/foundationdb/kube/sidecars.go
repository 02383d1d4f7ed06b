package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// SidecarUnreachable says that the sidecar of a pod does not do what it is asked for.
var SidecarUnreachable = fault.Declare(fault.Kind{
	Code: "FDB_SIDECAR_UNREACHABLE", Class: fault.Transient,
	Title:  "the sidecar of a FoundationDB pod does not answer, or not as it should",
	Remedy: "See whether the container foundationdb-kubernetes-sidecar runs and its log, and whether the operator may reach port 8080 of pods.",
	Guide:  "foundationdb.md#if-it-does-not-go-on",
})

// What the sidecar is. Source: foundationdb 7.3.69, packaging/docker/sidecar.py; fdb-kubernetes-operator 2.33.0,
// api/v1beta2/foundationdb_annotations.go and _constants.go.
const (
	sidecarContainer   = "foundationdb-kubernetes-sidecar"
	sidecarPort        = "8080"
	tlsArgument        = "--tls"
	familyArgument     = "--public-ip-family"
	familyAnnotation   = domain + "ip-family"
	anyFamily          = "0"              // in that annotation
	pathNotFound       = "Path not found" // the reason phrase for a path that this sidecar does not know
	longestAnswer      = 1 << 20          // bytes
	podsAtOnce         = 16               // of one cluster
	defaultGetTimeout  = 5 * time.Second
	defaultPostTimeout = 10 * time.Second
)

// SidecarOptions of Sidecars. The zero value talks to sidecars without TLS.
type SidecarOptions struct {
	GetTimeout, PostTimeout time.Duration // of one request; 0: 5 s, 10 s
	TLS                     TLSFiles      // read when a sidecar uses TLS, and again when they have changed
	// Wrap wraps the transport, so that a former leader writes nothing: controller.Manager.Fence. nil: it is not wrapped.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Sidecars implements port.Sidecars.
type Sidecars struct {
	o           SidecarOptions
	credentials credentials
	gates       gates
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
}

var _ port.Sidecars = &Sidecars{}

// NewSidecars returns sidecars. It sends no request and reads no file.
func NewSidecars(o SidecarOptions) *Sidecars {
	o.GetTimeout, o.PostTimeout = cmp.Or(o.GetTimeout, defaultGetTimeout), cmp.Or(o.PostTimeout, defaultPostTimeout)
	return &Sidecars{o: o, credentials: credentials{files: o.TLS}, gates: gates{size: podsAtOnce}, dial: (&net.Dialer{}).DialContext}
}

// Substitutions implements port.Sidecars.
func (s *Sidecars) Substitutions(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	answer, err := s.get(ctx, pod, "substitutions", http.StatusOK)
	if err != nil {
		return nil, err
	}
	var values map[string]*string // null: the sidecar was asked for a variable that it does not have
	if err := json.Unmarshal(answer.body, &values); err != nil || values == nil {
		return nil, unreachable(pod, "its substitutions are no JSON object: %.100q", answer.body)
	}
	known := map[string]string{}
	for name, value := range values {
		if value != nil {
			known[name] = *value
		}
	}
	return known, nil
}

var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Hash implements port.Sidecars.
func (s *Sidecars) Hash(ctx context.Context, pod *corev1.Pod, file string) (string, error) {
	answer, err := s.file(ctx, pod, "check_hash", file)
	if err != nil || answer.code == http.StatusNotFound {
		return "", err
	}
	if !hash.Match(answer.body) {
		return "", unreachable(pod, "the hash of %s is %.100q", file, answer.body)
	}
	return string(answer.body), nil
}

// Present implements port.Sidecars. Sidecars before 7.1.4 are asked for the hash instead.
func (s *Sidecars) Present(ctx context.Context, pod *corev1.Pod, file string) (bool, error) {
	answer, err := s.file(ctx, pod, "is_present", file)
	if err == nil && answer.code == http.StatusNotFound && answer.phrase == pathNotFound {
		answer, err = s.file(ctx, pod, "check_hash", file)
	}
	return err == nil && answer.code == http.StatusOK, err
}

// Copy implements port.Sidecars.
func (s *Sidecars) Copy(ctx context.Context, pod *corev1.Pod) error {
	for _, what := range []string{"copy_files", "copy_monitor_conf"} {
		if _, err := s.ask(ctx, pod, http.MethodPost, what, http.StatusOK); err != nil {
			return err
		}
	}
	return nil
}

// file asks for something about a file below the output folder.
func (s *Sidecars) file(ctx context.Context, pod *corev1.Pod, what, file string) (answer, error) {
	if file != path.Clean(file) || path.IsAbs(file) || strings.HasPrefix(file, "..") || strings.ContainsAny(file, " %?#") {
		return answer{}, controller.Refused.Errorf("%q is no file below the sidecar's folder", file)
	}
	return s.get(ctx, pod, what+"/"+file, http.StatusOK, http.StatusNotFound)
}

func (s *Sidecars) get(ctx context.Context, pod *corev1.Pod, path string, fine ...int) (answer, error) {
	return s.ask(ctx, pod, http.MethodGet, path, fine...)
}

// answer is what a sidecar has said. Some answer twice to a check_hash; only the first answer counts.
type answer struct {
	code   int
	phrase string // Path not found
	body   []byte
}

// ask sends one request. fine are the codes that are no error.
func (s *Sidecars) ask(ctx context.Context, pod *corev1.Pod, method, path string, fine ...int) (answer, error) {
	ip, err := addressOf(pod)
	if err != nil {
		return answer{}, err
	}
	leave, err := s.gates.enter(ctx, clusterOf(pod))
	if err != nil {
		return answer{}, err
	}
	defer leave()
	limit := s.o.GetTimeout
	if method != http.MethodGet {
		limit = s.o.PostTimeout
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	target := url.URL{Scheme: "http", Host: net.JoinHostPort(ip.String(), sidecarPort), Path: "/" + path}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: s.dial, MaxResponseHeaderBytes: 1 << 16} // no proxy
	if usesTLS(pod) {
		target.Scheme = "https"
		if transport.TLSClientConfig, err = s.credentials.current(); err != nil {
			return answer{}, err
		}
	}
	request, err := http.NewRequestWithContext(within, method, target.String(), nil)
	if err != nil {
		return answer{}, err
	}
	found, err := s.send(transport, request)
	switch {
	case err != nil && ctx.Err() != nil:
		return answer{}, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return answer{}, unreachable(pod, "%s %s: no answer within %s", method, target.String(), limit)
	case err != nil:
		var declared *fault.Error // of the fence
		if errors.As(err, &declared) {
			return answer{}, declared
		}
		return answer{}, unreachable(pod, "%w", err)
	case !slices.Contains(fine, found.code):
		return answer{}, unreachable(pod, "%s %s: %d %s", method, target.String(), found.code, found.phrase)
	}
	return found, nil
}

func (s *Sidecars) send(transport http.RoundTripper, request *http.Request) (answer, error) {
	if s.o.Wrap != nil {
		transport = s.o.Wrap(transport)
	}
	response, err := transport.RoundTrip(request) // follows no redirect
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer+1))
	if err == nil && len(body) > longestAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", longestAnswer)
	}
	_, phrase, _ := strings.Cut(response.Status, " ")
	return answer{response.StatusCode, phrase, bytes.TrimSpace(body)}, err
}

func unreachable(pod *corev1.Pod, format string, args ...any) error {
	return SidecarUnreachable.Errorf("pod "+pod.Namespace+"/"+pod.Name+": "+format, args...).With("pod", pod.Name)
}

// addressOf returns the IP that the sidecar listens on: the pod's, of the family that its addresses are of.
func addressOf(pod *corev1.Pod) (netip.Addr, error) {
	ips := []string{pod.Status.PodIP}
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	family := familyOf(pod)
	for _, text := range ips {
		ip, err := netip.ParseAddr(text)
		if err == nil && (family == "" || family == "4" && ip.Is4() || family == "6" && ip.Is6()) {
			return ip, nil
		}
	}
	if family != "" && pod.Status.PodIP != "" {
		return netip.Addr{}, unreachable(pod, "none of its addresses is of family %s", family)
	}
	return netip.Addr{}, unreachable(pod, "it has no address yet")
}

// familyOf returns the family of IPs that the pod was made for: 4 or 6. Empty: any.
func familyOf(pod *corev1.Pod) string {
	switch family := pod.Annotations[familyAnnotation]; family {
	case "":
	case anyFamily:
		return ""
	default:
		return family
	}
	for i, argument := range sidecarOf(pod).Args {
		if value, is := strings.CutPrefix(argument, familyArgument+"="); is {
			return value
		}
		if argument == familyArgument && i+1 < len(sidecarOf(pod).Args) {
			return sidecarOf(pod).Args[i+1]
		}
	}
	return ""
}

// usesTLS reports whether the sidecar of this pod uses TLS: the pod may be older than the spec.
func usesTLS(pod *corev1.Pod) bool { return slices.Contains(sidecarOf(pod).Args, tlsArgument) }

// sidecarOf returns the container. It is empty if the pod has none.
func sidecarOf(pod *corev1.Pod) corev1.Container {
	for _, c := range pod.Spec.Containers {
		if c.Name == sidecarContainer {
			return c
		}
	}
	return corev1.Container{}
}

// clusterOf tells clusters apart, so that the pods of one that hang do not keep others waiting.
func clusterOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return string(owner.UID)
	}
	return pod.Namespace
}
