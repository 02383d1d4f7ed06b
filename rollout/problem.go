package rollout

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout/internal/ordinal"
)

// Problem is one field of a plan that cannot be.
type Problem struct {
	Code    fault.Code `json:"code"`
	Path    string     `json:"path"` // rolloutBatches[2].replicas
	Message string     `json:"message"`
}

func (p Problem) String() string { return p.Path + ": " + p.Message }

const (
	maxName     = 63
	maxEntries  = 50 // of webhooks, metrics, gates and probes each
	minDeadline = time.Second
	maxTimeout  = 5 * time.Minute // of one call, which holds one of a limited number of places; a flow may take longer
)

// entryName is what a hook, metric, gate or probe may be called: its name is a part of a key, between slashes.
var entryName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// Problems are what admission refuses: whatever is wrong with the plan at any number of pods. nil:
// nothing.
func (p Plan) Problems() []Problem {
	c := &checker{}
	oneOf(c, "rolloutStrategy", p.RolloutStrategy, "", IncreaseFirst, DecreaseFirst)
	c.atLeast("targetSize", p.TargetSize, 0)
	c.atLeast("numBatches", p.NumBatches, 1)
	c.batches(p)
	c.deadline("batchDeadline", p.BatchDeadline)
	c.deadline("deadline", p.Deadline)
	c.notNegative("soak", p.Soak)
	c.onFailure("onFailure", p.OnFailure)
	if p.Rollback != nil {
		oneOf(c, "rollback.mode", p.Rollback.Mode, "", InBatches, AllAtOnce)
		c.deadline("rollback.deadline", p.Rollback.Deadline)
	}
	c.hooks("rolloutWebhooks", p.RolloutWebhooks, InitializeHook, FinalizeHook, PreBatchHook, PostBatchHook, EventHook)
	c.metrics("canaryMetric", p.CanaryMetric)
	c.gates("gates", p.Gates)
	c.probes("probes", p.Probes)
	c.disruption("disruption", p.Disruption)
	c.order("order", p.Order, p.Probes)
	return c.found
}

// checker collects problems.
type checker struct{ found []Problem }

func (c *checker) refuse(path, format string, args ...any) {
	c.found = append(c.found, Problem{Code: PlanInvalid.Code, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) atLeast(path string, n *int, least int) {
	if n != nil && *n < least {
		c.refuse(path, "%d is too small: at least %d", *n, least)
	}
}

func (c *checker) notNegative(path string, d Duration) {
	if d < 0 {
		c.refuse(path, "%s is negative", d)
	}
}

func (c *checker) timeout(path string, d Duration) {
	c.notNegative(path, d)
	if time.Duration(d) > maxTimeout {
		c.refuse(path, "%s is too long: at most %s", d, maxTimeout)
	}
}

func (c *checker) deadline(path string, d *Duration) {
	if d != nil && time.Duration(*d) < minDeadline {
		c.refuse(path, "%s is too short: at least %s", *d, minDeadline)
	}
}

func (c *checker) onFailure(path string, o OnFailure) {
	oneOf(c, path, o, "", OnFailurePause, OnFailureRollback, OnFailureContinue)
}

// oneOf refuses a value that is not in the list; "" in the list means that it may be absent.
func oneOf[T ~string](c *checker, path string, value T, allowed ...T) {
	if slices.Contains(allowed, value) {
		return
	}
	var names []string
	for _, a := range allowed {
		if a != "" {
			names = append(names, string(a))
		}
	}
	if value == "" {
		c.refuse(path, "it is required: %s", strings.Join(names, ", "))
		return
	}
	c.refuse(path, "%q is none of %s", value, strings.Join(names, ", "))
}

func (c *checker) amount(path string, a *IntOrPercent) {
	switch {
	case a == nil:
	case a.Value < 0:
		c.refuse(path, "%s is negative", a)
	case a.Percent && a.Value > 100:
		c.refuse(path, "%s is more than 100%%", a)
	}
}

func (c *checker) batches(p Plan) {
	count := len(p.RolloutBatches)
	switch {
	case p.RolloutBatches != nil && count == 0:
		c.refuse("rolloutBatches", "the list is empty: leave it out for one batch with everything")
	case count > MaxBatches:
		c.refuse("rolloutBatches", "there are %d batches: at most %d", count, MaxBatches)
	case p.RolloutBatches == nil && p.NumBatches != nil:
		if count = *p.NumBatches; count > MaxBatches {
			c.refuse("numBatches", "%d is too large: at most %d", count, MaxBatches)
		}
	case p.RolloutBatches == nil:
		count = 1
	case p.NumBatches != nil && *p.NumBatches != count:
		c.refuse("numBatches", "it is %d, and there are %d rolloutBatches", *p.NumBatches, count)
	}
	if p.BatchPartition != nil && (*p.BatchPartition < 0 || *p.BatchPartition >= count) {
		c.refuse("batchPartition", "%d is no index of a batch: 0 to %d", *p.BatchPartition, count-1)
	}
	percent := 0
	names, ordinals := map[string]int{}, map[int]int{}
	for i, b := range p.RolloutBatches {
		path := fmt.Sprintf("rolloutBatches[%d]", i)
		c.batch(path, b, i == len(p.RolloutBatches)-1)
		apart(c, path+".batchRolloutWebhooks", b.BatchRolloutWebhooks, "rolloutWebhooks", p.RolloutWebhooks, hookName)
		apart(c, path+".canaryMetric", b.CanaryMetric, "canaryMetric", p.CanaryMetric, metricName)
		apart(c, path+".gates", b.Gates, "gates", p.Gates, gateName)
		if b.Pods != nil && b.Pods.Role != "" && p.Order == nil {
			c.refuse(path+".pods.role", "pods have roles only by order.roleLabel or order.roleProbe")
		}
		for _, name := range b.PodList {
			if other, ok := names[name]; ok {
				c.refuse(path+".podList", "pod %s stands in batch %d already", name, other)
			}
			names[name] = i
		}
		if b.Pods != nil {
			for _, o := range b.Pods.ordinals() {
				if other, ok := ordinals[o]; ok {
					c.refuse(path+".pods.ordinals", "ordinal %d stands in batch %d already", o, other)
				}
				ordinals[o] = i
			}
		}
		if b.Replicas != nil && b.Replicas.Percent && b.Replicas.Value <= 100 {
			percent += b.Replicas.Value
		}
	}
	if percent > 100 {
		c.refuse("rolloutBatches", "the percentages are %d%% together: at most 100%%", percent)
	}
}

func (c *checker) batch(path string, b Batch, last bool) {
	c.amount(path+".replicas", b.Replicas)
	if b.Replicas == nil && b.PodList == nil && b.Pods == nil && !last {
		c.refuse(path+".replicas", "it is required: only the last batch may take the rest")
	}
	if b.PodList != nil && b.Pods != nil {
		c.refuse(path+".pods", "it stands beside podList: keep one of them")
	}
	if b.Pods != nil {
		if b.Pods.Ordinals == nil && b.Pods.Role == "" && b.Pods.Selector == nil {
			c.refuse(path+".pods", "it selects nothing: set ordinals, role or selector")
		}
		for i, text := range b.Pods.Ordinals {
			if _, _, err := ordinal.Range(text); err != nil {
				c.refuse(fmt.Sprintf("%s.pods.ordinals[%d]", path, i), "%s", err)
			}
		}
		if b.Pods.Selector != nil {
			c.selector(path+".pods.selector", *b.Pods.Selector)
		}
	}
	c.amount(path+".maxUnavailable", b.MaxUnavailable)
	c.notNegative(path+".instanceInterval", b.InstanceInterval)
	if b.Soak != nil {
		c.notNegative(path+".soak", *b.Soak)
	}
	c.deadline(path+".deadline", b.Deadline)
	c.hooks(path+".batchRolloutWebhooks", b.BatchRolloutWebhooks, PreBatchHook, PostBatchHook)
	c.metrics(path+".canaryMetric", b.CanaryMetric)
	c.gates(path+".gates", b.Gates)
}

// labelName is a label's value, and the part of its key behind the slash; labelPrefix is the part before it.
var (
	labelName   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	labelPrefix = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

func (c *checker) labelKey(path, key string) {
	prefix, name, slash := strings.Cut(key, "/")
	if !slash {
		name = prefix
	}
	if len(name) > maxName || !labelName.MatchString(name) || slash && (len(prefix) > 253 || !labelPrefix.MatchString(prefix)) {
		c.refuse(path, "%q is no key of a label", key)
	}
}

func (c *checker) labelValue(path, value string) {
	if value != "" && (len(value) > maxName || !labelName.MatchString(value)) {
		c.refuse(path, "%q is no value of a label: at most %d letters, digits, '-', '_' and '.', with a letter or digit at both ends", value, maxName)
	}
}

func (c *checker) selector(path string, s Selector) {
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		at := path + ".matchLabels." + key
		c.labelKey(at, key)
		c.labelValue(at, s.MatchLabels[key])
	}
	for i, r := range s.MatchExpressions {
		at := fmt.Sprintf("%s.matchExpressions[%d]", path, i)
		if r.Key == "" {
			c.refuse(at+".key", "it is required")
		} else {
			c.labelKey(at+".key", r.Key)
		}
		for k, value := range r.Values {
			c.labelValue(fmt.Sprintf("%s.values[%d]", at, k), value)
		}
		oneOf(c, at+".operator", r.Operator, In, NotIn, Exists, DoesNotExist)
		if (r.Operator == In || r.Operator == NotIn) == (len(r.Values) == 0) {
			c.refuse(at+".values", "In and NotIn need values, Exists and DoesNotExist have none")
		}
	}
}

func hookName(h Hook) string     { return h.Name }
func metricName(m Metric) string { return m.Name }
func gateName(g Gate) string     { return g.Name }

// apart refuses entries of a batch with the name of one of the plan: both are asked in this batch, and
// the name is a part of their key.
func apart[T any](c *checker, path string, list []T, of string, others []T, name func(T) string) {
	for i, entry := range list {
		if other := slices.IndexFunc(others, func(o T) bool { return name(o) == name(entry) }); other >= 0 {
			c.refuse(fmt.Sprintf("%s[%d].name", path, i), "%q is the name of %s[%d] already", name(entry), of, other)
		}
	}
}

// entries checks the length of a list and the names in it, and returns the path of each entry.
func entries[T any](c *checker, path string, list []T, name func(T) string, check func(path string, entry T)) {
	if len(list) > maxEntries {
		c.refuse(path, "there are %d entries: at most %d", len(list), maxEntries)
	}
	seen := map[string]int{}
	for i, entry := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch n := name(entry); {
		case n == "":
			c.refuse(at+".name", "it is required")
		default:
			if len(n) > maxName || !entryName.MatchString(n) {
				c.refuse(at+".name", "%q is no name: at most %d letters, digits, '-', '_' and '.', with a letter or digit at both ends", n, maxName)
			}
			if other, ok := seen[n]; ok {
				c.refuse(at+".name", "%q is the name of %s[%d] already", n, path, other)
			}
			seen[n] = i
		}
		check(at, entry)
	}
}

func (c *checker) hooks(path string, hooks []Hook, types ...HookType) {
	entries(c, path, hooks, hookName, func(at string, h Hook) {
		oneOf(c, at+".type", h.Type, types...)
		switch {
		case (h.URL == "") == (h.Flow == ""):
			c.refuse(at, "set one of url and flow")
		case h.URL != "":
			c.url(at+".url", h.URL)
		}
		if h.Flow == "" && h.Input != nil {
			c.refuse(at+".input", "only a flow has an input")
		}
		oneOf(c, at+".method", h.Method, "", "POST", "GET", "PUT")
		for i, code := range h.ExpectedStatus {
			if code < 100 || code > 599 {
				c.refuse(fmt.Sprintf("%s.expectedStatus[%d]", at, i), "%d is no status code of HTTP", code)
			}
		}
		c.timeout(at+".timeout", h.Timeout)
		c.atLeast(at+".retries", h.Retries, 0)
		c.onFailure(at+".onFailure", h.OnFailure)
	})
}

func (c *checker) url(path, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.refuse(path, "%q is no http or https URL", text)
	case u.User != nil:
		c.refuse(path, "a user in the URL is not allowed: use tls.secretRef")
	case u.Fragment != "":
		c.refuse(path, "a fragment is not allowed")
	}
}

func (c *checker) metrics(path string, metrics []Metric) {
	entries(c, path, metrics, metricName, func(at string, m Metric) {
		if m.Interval != 0 && time.Duration(m.Interval) < time.Second {
			c.refuse(at+".interval", "%s is too short: at least 1s", m.Interval)
		}
		c.notNegative(at+".initialDelay", m.InitialDelay)
		c.atLeast(at+".count", &m.Count, 0)
		c.atLeast(at+".failureLimit", &m.FailureLimit, 0)
		c.atLeast(at+".inconclusiveLimit", m.InconclusiveLimit, 0)
		switch r := m.MetricsRange; {
		case r.Min == nil && r.Max == nil:
			c.refuse(at+".metricsRange", "set min, max or both")
		case r.Min != nil && r.Max != nil && r.Min.Cmp(*r.Max) > 0:
			c.refuse(at+".metricsRange", "min %s is above max %s", r.Min, r.Max)
		}
		prometheus := m.Provider.Prometheus
		if prometheus == nil {
			c.refuse(at+".provider.prometheus", "it is required")
		} else {
			c.url(at+".provider.prometheus.address", prometheus.Address)
			c.timeout(at+".provider.prometheus.timeout", prometheus.Timeout)
			if (prometheus.Query == "") == (m.TemplateRef == nil) {
				c.refuse(at, "set one of provider.prometheus.query and templateRef")
			}
		}
		if m.TemplateRef != nil && (m.TemplateRef.Name == "" || m.TemplateRef.Key == "") {
			c.refuse(at+".templateRef", "it needs name and key")
		}
		c.onFailure(at+".onFailure", m.OnFailure)
		c.onFailure(at+".onInconclusive", m.OnInconclusive)
	})
}

func (c *checker) gates(path string, gates []Gate) {
	entries(c, path, gates, gateName, func(at string, g Gate) {
		oneOf(c, at+".when", g.When, BeforeBatch, BeforePod, AfterBatch)
		if strings.TrimSpace(g.Expression) == "" {
			c.refuse(at+".expression", "it is required")
		}
		c.deadline(at+".timeout", g.Timeout)
		c.onFailure(at+".onFailure", g.OnFailure)
	})
}

func (c *checker) probes(path string, probes []Probe) {
	entries(c, path, probes, func(p Probe) string { return p.Name }, func(at string, p Probe) {
		ways := 0
		if p.Exec != nil {
			ways++
			c.exec(at+".exec", *p.Exec)
		}
		if p.HTTP != nil {
			ways++
			c.http(at+".http", *p.HTTP)
		}
		if p.TCP != nil {
			ways++
			c.port(at+".tcp.port", p.TCP.Port)
		}
		if ways != 1 {
			c.refuse(at, "set one of exec, http and tcp")
		}
		if p.Period != 0 && time.Duration(p.Period) < time.Second {
			c.refuse(at+".period", "%s is too short: at least 1s", p.Period)
		}
		c.timeout(at+".timeout", p.Timeout)
		c.atLeast(at+".failureThreshold", &p.FailureThreshold, 0)
		c.atLeast(at+".successThreshold", &p.SuccessThreshold, 0)
		oneOf(c, at+".parse", p.Parse, "", ParseExit, ParseNumber, ParseJSON)
		oneOf(c, at+".scope", p.Scope, "", ScopeUpdated, ScopeAll)
		if p.Selector != nil {
			c.selector(at+".selector", *p.Selector)
		}
		c.onFailure(at+".onFailure", p.OnFailure)
	})
}

func (c *checker) exec(path string, e ExecProbe) {
	if len(e.Command) == 0 {
		c.refuse(path+".command", "it is required")
	}
}

func (c *checker) http(path string, h HTTPProbe) {
	c.port(path+".port", h.Port)
	oneOf(c, path+".scheme", h.Scheme, "", "http", "https")
	if h.Path != "" && !strings.HasPrefix(h.Path, "/") {
		c.refuse(path+".path", "%q does not begin with a slash", h.Path)
	}
}

func (c *checker) port(path string, port int) {
	if port < 1 || port > 65535 {
		c.refuse(path, "%d is no port: 1 to 65535", port)
	}
}

func (c *checker) disruption(path string, d *Disruption) {
	if d == nil {
		return
	}
	if q := d.Quorum; q != nil {
		c.selector(path+".quorum.selector", q.Selector)
		c.atLeast(path+".quorum.members", q.Members, 1)
		if !q.MinHealthy.Majority {
			c.amount(path+".quorum.minHealthy", &q.MinHealthy.IntOrPercent)
			if q.MinHealthy.Value == 0 {
				c.refuse(path+".quorum.minHealthy", "it is required: a number, a percentage or majority")
			}
		}
	}
	c.amount(path+".maxUnavailable", d.MaxUnavailable)
	c.amount(path+".maxUnavailablePerZone", d.MaxUnavailablePerZone)
	if d.ZoneKey != "" {
		c.labelKey(path+".zoneKey", d.ZoneKey)
	}
	if d.ZoneKey != "" && d.MaxUnavailablePerZone == nil {
		c.refuse(path+".zoneKey", "it counts only beside maxUnavailablePerZone")
	}
}

func (c *checker) order(path string, o *Order, probes []Probe) {
	if o == nil {
		return
	}
	if (o.RoleLabel == "") == (o.RoleProbe == "") {
		c.refuse(path, "set one of roleLabel and roleProbe")
	}
	if o.RoleLabel != "" {
		c.labelKey(path+".roleLabel", o.RoleLabel)
	}
	if o.RoleProbe != "" && !slices.ContainsFunc(probes, func(p Probe) bool { return p.Name == o.RoleProbe }) {
		c.refuse(path+".roleProbe", "there is no probe with the name %q", o.RoleProbe)
	}
	if len(o.Roles) == 0 {
		c.refuse(path+".roles", "it is required: the roles in the order in which their pods change")
	}
	for i, role := range o.Roles {
		if slices.Contains(o.Roles[:i], role) {
			c.refuse(fmt.Sprintf("%s.roles[%d]", path, i), "%q stands there twice", role)
		}
	}
	if h := o.Handover; h != nil {
		switch {
		case (h.Exec == nil) == (h.HTTP == nil):
			c.refuse(path+".handover", "set one of exec and http")
		case h.Exec != nil:
			c.exec(path+".handover.exec", *h.Exec)
		default:
			c.http(path+".handover.http", *h.HTTP)
		}
		c.timeout(path+".handover.timeout", h.Timeout)
		c.atLeast(path+".handover.retries", h.Retries, 0)
	}
}
