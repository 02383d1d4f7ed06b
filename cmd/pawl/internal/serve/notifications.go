package serve

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/notification"
	"github.com/pawl-dev/pawl/workflow/action/egress"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// notifications creates the sender of webhooks.
func (p *parts) notifications() (*notification.Sender, error) {
	policy, err := egress.NewPolicy(p.options.HTTPAllow)
	if err != nil {
		return nil, runtype.InputInvalid.Errorf("--http-allow: %w", err)
	}
	results := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_notifications_total", Help: "Attempts to deliver webhooks by result: sent, failed; and events given up: dead."}, []string{"result"})
	delays := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pawl_notification_delay_seconds", Help: "Time from an event to its accepted webhook.", Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 10, 60, 600, 3600}})
	p.metrics.Registry().MustRegister(results, delays)
	var clusters notification.Source
	if p.clusters.service != nil {
		clusters = clusterEvents{p.store.Clusters()}
	}
	return notification.New(notification.Options{
		Objects: p.objects, History: p.store, Secrets: p.options.Secrets, Clusters: clusters, Changed: p.notifier.Next, Logger: p.log,
		Client: func() *http.Client { return policy.Client(egress.ClientOptions{Idle: notification.Idle}) },
		Observe: func(result string, delay time.Duration) {
			results.WithLabelValues(result).Inc()
			if result == "sent" {
				delays.Observe(delay.Seconds())
			}
		},
	}), nil
}
