package controller

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Health needs no token; metrics need one except on loopback.
func TestHealthAndMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	counted, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	counted.passes.WithLabelValues("demo", "done").Inc()
	var health, ready checks
	well := true
	if err := errors.Join(health.add("ping", func(*http.Request) error { return nil }), ready.add("caches", func(*http.Request) error {
		if !well {
			return errors.New("2 are not filled")
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	if ready.add("caches", func(*http.Request) error { return nil }) == nil || ready.add("", nil) == nil {
		t.Error("a check that is known or empty was taken")
	}
	loopback, outside := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7296}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 7296}
	ask := func(token, path, bearer string, at net.Addr) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, at))
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		if bearer != "" {
			r.Header.Set("Authorization", bearer)
		}
		w := httptest.NewRecorder()
		newHandler(&health, &ready, registry, token).ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		name, token, path, bearer string
		at                        net.Addr
		well                      bool
		code                      int
		body                      string
	}{
		{"alive", "", "/healthz", "", outside, false, 200, "ok"},
		{"ready", "", "/readyz", "", outside, true, 200, "ok"},
		{"not ready", "", "/readyz", "", outside, false, 503, "caches: 2 are not filled"},
		{"metrics here", "", "/metrics", "", loopback, true, 200, `pawl_controller_passes_total{controller="demo",outcome="done"} 1`},
		{"metrics here, though there is a token", "secret", "/metrics", "", loopback, true, 200, "pawl_"},
		{"metrics from outside", "", "/metrics", "", outside, true, 401, "token"},
		{"an empty token is none", "", "/metrics", "Bearer ", outside, true, 401, "token"},
		{"the wrong token", "secret", "/metrics", "Bearer wrong", outside, true, 401, "token"},
		{"no bearer", "secret", "/metrics", "secret", outside, true, 401, "token"},
		{"the token", "secret", "/metrics", "Bearer secret", outside, true, 200, "pawl_"},
		{"all else", "", "/", "", loopback, true, 404, ""},
	} {
		well = c.well
		if code, body := ask(c.token, c.path, c.bearer, c.at); code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("%s: %d %s", c.name, code, body)
		}
	}
}

// The metrics of two registries are served together, each family once.
func TestGatherersGiveEachFamilyOnce(t *testing.T) {
	one, two := prometheus.NewRegistry(), prometheus.NewRegistry()
	for registry, v := range map[*prometheus.Registry]float64{one: 1, two: 2} {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "both"})
		g.Set(v)
		registry.MustRegister(g)
	}
	two.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "more"}))
	families, err := gatherers{one, two}.Gather()
	if err != nil || len(families) != 2 || families[0].GetMetric()[0].GetGauge().GetValue() != 1 || families[1].GetName() != "more" {
		t.Errorf("%v %v", families, err)
	}
	if _, err := newMetrics(one); err != nil {
		t.Error(err)
	}
	if _, err := newMetrics(one); err == nil {
		t.Error("two managers share a registry and nobody says so")
	}
}
