package outside

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

	"k8s.io/client-go/util/jsonpath"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

const outputKept = 4 << 10 // bytes of the output of a probe

// Probe asks a pod once.
func (c *Client) Probe(ctx context.Context, r rollout.Probe, pod Pod) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.Timeout))
	defer cancel()
	value, err := "", error(nil)
	switch {
	case r.Exec != nil:
		value, err = c.exec(ctx, pod, *r.Exec)
	case r.HTTP != nil:
		value, err = c.http(ctx, pod, *r.HTTP, "")
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

func (p Pod) dial(ctx context.Context, port int) error {
	if p.IP == "" {
		return errors.New("the pod has no address")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(p.IP, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return conn.Close()
}

// http asks the address of a pod, and nothing else: redirects are not followed. As the kubelet
// does, it does not check certificates, and takes 200 to 399 for a success.
func (c *Client) http(ctx context.Context, pod Pod, h rollout.HTTPProbe, key string) (string, error) {
	addr, err := netip.ParseAddr(pod.IP)
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
	request, err := http.NewRequestWithContext(ctx, method, strings.ToLower(scheme)+"://"+net.JoinHostPort(pod.IP, strconv.Itoa(h.Port))+path, nil)
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
		request.Header.Set(KeyHeader, key)
	}
	client := c.Egress.Allowing(addr).Client(egress.ClientOptions{TLS: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}) //nolint:gosec // as the kubelet
	response, err := client.Do(request)
	if err != nil {
		return "", Error(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, outputKept))
	if err != nil {
		return "", Error(err)
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

// HandOver asks a pod to give up its role, and returns what it said.
func (c *Client) HandOver(ctx context.Context, h rollout.Handover, key string, pod Pod) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.Timeout))
	defer cancel()
	if h.Exec != nil {
		return c.exec(ctx, pod, *h.Exec)
	}
	return c.http(ctx, pod, *h.HTTP, key)
}
