package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// watch executes the probes of a running container: the startup probe first, then the
// others concurrently. It returns when ctx ends.
func (c *container) watch(ctx context.Context, p *process) {
	begun := time.Now()
	if probe := c.spec.StartupProbe; probe != nil {
		if !c.awaitStartup(ctx, p, probe, begun) {
			return
		}
	}
	c.set(func(s *corev1.ContainerStatus) {
		yes := true
		s.Started, s.Ready = &yes, c.spec.ReadinessProbe == nil
	})
	var both sync.WaitGroup
	if probe := c.spec.ReadinessProbe; probe != nil {
		both.Go(func() {
			c.repeat(ctx, p, probe, begun, func(good bool) bool {
				c.set(func(s *corev1.ContainerStatus) { s.Ready = good })
				return true
			})
		})
	}
	if probe := c.spec.LivenessProbe; probe != nil {
		both.Go(func() {
			c.repeat(ctx, p, probe, begun, func(good bool) bool {
				if !good {
					c.unhealthy(p, probe)
				}
				return good
			})
		})
	}
	both.Wait()
}

// awaitStartup waits until the startup probe succeeds, or ends the container.
func (c *container) awaitStartup(ctx context.Context, p *process, probe *corev1.Probe, begun time.Time) (started bool) {
	c.repeat(ctx, p, probe, begun, func(good bool) bool {
		if started = good; !good {
			c.unhealthy(p, probe)
		}
		return false
	})
	return started
}

// unhealthy stops a container whose probe has failed too often.
func (c *container) unhealthy(p *process, probe *corev1.Probe) {
	grace := c.w.grace()
	if probe.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	}
	c.stop(p, grace)
}

// repeat executes a probe and reports its result when the threshold of equal results is
// reached, until report returns false or ctx ends. The first failure also needs the
// threshold.
func (c *container) repeat(ctx context.Context, p *process, probe *corev1.Probe, begun time.Time, report func(good bool) bool) {
	or := func(value, otherwise int32) int32 {
		if value == 0 {
			return otherwise
		}
		return value
	}
	period := time.Duration(or(probe.PeriodSeconds, 10)) * time.Second
	if !sleep(ctx, time.Until(begun.Add(time.Duration(probe.InitialDelaySeconds)*time.Second))) {
		return
	}
	var good, bad int32
	for {
		once, cancel := context.WithTimeout(ctx, time.Duration(or(probe.TimeoutSeconds, 1))*time.Second)
		err := c.check(once, p, &probe.ProbeHandler)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			good, bad = good+1, 0
		} else {
			good, bad = 0, bad+1
		}
		if good == or(probe.SuccessThreshold, 1) || bad == or(probe.FailureThreshold, 3) {
			if !report(err == nil) {
				return
			}
		}
		if !sleep(ctx, period) {
			return
		}
	}
}

// check executes one probe.
func (c *container) check(ctx context.Context, p *process, h *corev1.ProbeHandler) error {
	switch {
	case h.Exec != nil:
		return c.command(ctx, p, h.Exec.Command)
	case h.HTTPGet != nil:
		return c.get(ctx, h.HTTPGet)
	case h.TCPSocket != nil:
		return c.dial(ctx, h.TCPSocket)
	}
	return errors.New("a probe that the fake kubelet does not know")
}

// handle executes a hook of a container's lifecycle.
func (c *container) handle(ctx context.Context, p *process, h *corev1.LifecycleHandler) error {
	switch {
	case h.Exec != nil:
		return c.command(ctx, p, h.Exec.Command)
	case h.HTTPGet != nil:
		return c.get(ctx, h.HTTPGet)
	case h.Sleep != nil:
		sleep(ctx, time.Duration(h.Sleep.Seconds)*time.Second)
		return nil
	}
	return errors.New("a hook that the fake kubelet does not know")
}

func (c *container) command(ctx context.Context, p *process, argv []string) error {
	out, err := p.exec(ctx, argv)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return nil
}

func (c *container) get(ctx context.Context, h *corev1.HTTPGetAction) error {
	host, err := c.target(h.Host, h.Port)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.ToLower(string(h.Scheme))+"://"+host+"/"+strings.TrimPrefix(h.Path, "/"), nil)
	if err != nil {
		return err
	}
	for _, header := range h.HTTPHeaders {
		req.Header.Add(header.Name, header.Value)
		if strings.EqualFold(header.Name, "Host") {
			req.Host = header.Value
		}
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // as kubelets do
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 10<<10)) // ignore the rest
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return fmt.Errorf("%s says %s", req.URL, resp.Status)
	}
	return nil
}

func (c *container) dial(ctx context.Context, h *corev1.TCPSocketAction) error {
	host, err := c.target(h.Host, h.Port)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (c *container) target(host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = c.w.address
	}
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, p := range c.spec.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
	}
	if number == 0 {
		return "", fmt.Errorf("there is no port %q", port.String())
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// sleep waits; it returns false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
