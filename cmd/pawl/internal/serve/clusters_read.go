package serve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/provider/cloudstack"
)

// ReadClusters reads the file of --clusters. CLUSTERS_CONFIG_INVALID names file
// and line of everything that is wrong.
func ReadClusters(path string) (*Clusters, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, ClustersInvalid.Errorf("%w", err)
	}
	c := &Clusters{}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, ClustersInvalid.Errorf("%s", strings.Join(readable(path, err), "; "))
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, ClustersInvalid.Errorf("%s: %w", path, err)
	}
	var all []string
	for _, w := range c.errors() {
		all = append(all, fmt.Sprintf("%s:%d: %s", path, lineOf(&doc, w.at), w.says))
	}
	if all != nil {
		return nil, ClustersInvalid.Errorf("%s", strings.Join(all, "; "))
	}
	return c, nil
}

var (
	atLine     = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)
	unknownKey = regexp.MustCompile(`field (\S+) not found in type .*`)
	wrongType  = regexp.MustCompile("cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.*)")
)

// readable returns each error of the decoder as file:line: message.
func readable(path string, err error) []string {
	messages := []string{err.Error()}
	if many := (*yaml.TypeError)(nil); errors.As(err, &many) {
		messages = many.Errors
	}
	for i, text := range messages {
		text = unknownKey.ReplaceAllStringFunc(text, func(found string) string {
			key := unknownKey.FindStringSubmatch(found)[1]
			return fmt.Sprintf("unknown key %q%s", key, machine.DidYouMean(key, clusterKeys(reflect.TypeFor[Clusters]())))
		})
		text = wrongType.ReplaceAllStringFunc(text, func(found string) string {
			m := wrongType.FindStringSubmatch(found)
			value, want := m[2], map[bool]string{true: "mapping", false: "list"}[strings.HasPrefix(m[3], "struct")]
			if kind, ok := map[string]string{"int": "number", "bool": "true or false", "string": "text"}[m[3]]; ok {
				want = kind
			}
			if value == "" {
				value = "a " + map[string]string{"map": "mapping", "seq": "list"}[m[1]]
			}
			return fmt.Sprintf("%s is no %s", value, want)
		})
		if atLine.MatchString(text) {
			text = atLine.ReplaceAllString(text, path+":$1: ")
		} else {
			text = path + ": " + strings.TrimPrefix(text, "yaml: ")
		}
		messages[i] = text
	}
	return messages
}

// clusterKeys are all keys of a file, at whatever depth.
func clusterKeys(t reflect.Type) (keys []string) {
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer, reflect.Map:
		return clusterKeys(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			keys = append(append(keys, name), clusterKeys(t.Field(i).Type)...)
		}
	}
	return keys
}

// wrong is an error and the path of keys and positions to it.
type wrong struct {
	at   []any
	says string
}

// lineOf is the line where keys and positions lead, or the last one that is there.
func lineOf(n *yaml.Node, at []any) int {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		return lineOf(n.Content[0], at)
	}
	if len(at) == 0 {
		return max(1, n.Line)
	}
	switch step := at[0].(type) {
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return lineOf(n.Content[step], at[1:])
		}
	case string:
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return lineOf(n.Content[i+1], at[1:])
			}
		}
	}
	return max(1, n.Line)
}

// errors returns the errors of a configuration that parses but cannot work.
func (c *Clusters) errors() (all []wrong) {
	says := func(format string, args ...any) func(at ...any) {
		return func(at ...any) { all = append(all, wrong{at, fmt.Sprintf(format, args...)}) }
	}
	if len(c.Providers) == 0 {
		says("providers: at least one is needed")("providers")
	}
	var names []string
	for i, p := range c.Providers {
		c.wrongProvider(p, i, names, says)
		names = append(names, p.Name)
	}
	names = nil
	for i, v := range c.Versions {
		if v.ID == "" || v.Semantic == "" || v.Template == "" {
			says("a version needs id, version and template")("versions", i)
		}
		if v.ID != "" && slices.Contains(names, v.ID) {
			says("version %q is there twice", v.ID)("versions", i, "id")
		}
		if v.Semantic != "" && cluster.ValidateUpgrade("", v.Semantic) != nil {
			says("version %q is no x.y.z", v.Semantic)("versions", i, "version")
		}
		names = append(names, v.ID)
	}
	if _, err := cluster.ParseRecovery(c.Recovery); err != nil {
		says("%s", fault.Message(err))("recovery")
	}
	if err := cluster.ValidateOnFailure(cluster.OnFailure(c.OnFailure)); err != nil {
		says("%s", fault.Message(err))("onFailure")
	}
	if !slices.Contains([]string{"", "keep", "rollback"}, c.OnScaleFailure) {
		says("onScaleFailure %q is none of keep, rollback", c.OnScaleFailure)("onScaleFailure")
	}
	s := c.settings().OrDefault()
	if s.Settle <= s.CallTimeout {
		says("timeouts: settle (%s) must be longer than call (%s): what was called may still come to be", s.Settle, s.CallTimeout)("timeouts", "settle")
	}
	if s.GCLongest < s.GCFirst {
		says("gc: longest (%s) is shorter than first (%s)", s.GCLongest, s.GCFirst)("gc", "longest")
	}
	for _, n := range []struct {
		group, key string
		value      int
	}{{"limits", "workers", c.Limits.Workers}, {"limits", "perCluster", c.Limits.PerCluster}, {"limits", "perProvider", c.Limits.PerProvider},
		{"limits", "maxUnavailable", c.Limits.MaxUnavailable}, {"sync", "passes", c.Sync.Passes}, {"gc", "reportAfter", c.GC.ReportAfter},
		{"query", "ratePerSecond", c.Query.RatePerSecond}, {"query", "burst", c.Query.Burst}, {"query", "pageMaximum", c.Query.PageMaximum}} {
		if n.value < 0 {
			says("%s: %d is below 0", n.key, n.value)(n.group, n.key)
		}
	}
	return all
}

func (c *Clusters) wrongProvider(p Provider, i int, names []string, says func(string, ...any) func(...any)) {
	types := []string{"local", "sim", "cloudstack"}
	switch {
	case p.Name == "":
		says("a provider needs a name")("providers", i)
	case slices.Contains(names, p.Name):
		says("provider %q is there twice", p.Name)("providers", i, "name")
	}
	if !slices.Contains(types, p.Type) {
		says("type %q is none of local, sim, cloudstack%s", p.Type, machine.DidYouMean(p.Type, types))("providers", i, "type")
	}
	if p.Type == "cloudstack" && (p.URL == "" || p.APIKey == "" || p.SecretFile == "") {
		says("cloudstack needs url, apiKey and secretFile")("providers", i)
	}
	cloudStackErrors(p, i, says)
}

// cloudStackErrors returns the errors in keys that only cloudstack has.
func cloudStackErrors(p Provider, i int, says func(string, ...any) func(...any)) {
	for _, k := range []struct {
		key string
		set bool
	}{{"zones", p.Zones != nil}, {"pageSize", p.PageSize != 0}, {"rate", p.Rate != 0}, {"parallel", p.Parallel != 0}, {"account", p.Account != ProviderAccount{}}, {"accounts", p.Accounts != nil}} {
		if k.set && (p.Type == "local" || p.Type == "sim") {
			says("%s: providers of type %s have none: take it out", k.key, p.Type)("providers", i, k.key)
		}
	}
	for n, zone := range p.Zones {
		if zone == "" || slices.Contains(p.Zones[:n], zone) {
			says("zones: %q is empty or there twice: write the id of each zone once, as listZones of the server tells it", zone)("providers", i, "zones", n)
		}
	}
	if p.PageSize < 0 || p.PageSize == 1 || p.PageSize > cloudstack.MaxPageSize {
		says("pageSize: %d is none of 2 to %d; leave it out for the most that the server allows", p.PageSize, cloudstack.MaxPageSize)("providers", i, "pageSize")
	}
	if p.Rate < 0 {
		says("rate: %d is below 0; it is calls a second in each zone", p.Rate)("providers", i, "rate")
	}
	if p.Parallel < 0 {
		says("parallel: %d is below 0; it is calls at a time in each zone", p.Parallel)("providers", i, "parallel")
	}
	const both = "%s needs name and domainID, the id of its domain at the server"
	if (p.Account.Name == "") != (p.Account.DomainID == "") {
		says(both, "account")("providers", i, "account")
	}
	for _, id := range slices.Sorted(maps.Keys(p.Accounts)) {
		if a := p.Accounts[id]; id == "" || a.Name == "" || a.DomainID == "" {
			says(both, fmt.Sprintf("accounts: %q", id))("providers", i, "accounts", id)
		}
	}
}

// Effective is the configuration with its defaults and without what must not be
// shown.
func (c *Clusters) Effective() Clusters {
	e := *c
	s := c.settings().OrDefault()
	span := func(d time.Duration) Span { return Span(d) }
	e.Sync.Interval, e.GC.Interval, e.GC.First, e.GC.Longest = span(s.SyncEvery), span(s.CollectEvery), span(s.GCFirst), span(s.GCLongest)
	e.GC.Grace, e.GC.ReportAfter = span(s.OrphanGrace), s.ReportAfter
	t := s.Tolerances.OrDefault()
	e.Sync.Transitional, e.Sync.Heartbeat, e.Sync.Passes = span(t.Transitional), span(t.HeartbeatTimeout), t.Passes
	e.Timeouts.Call, e.Timeouts.Settle, e.Timeouts.Endpoint, e.Timeouts.Join = span(s.CallTimeout), span(s.Settle), span(s.EndpointWait), span(s.JoinWait)
	k := s.Retention.OrDefault()
	e.Retention.Clusters, e.Retention.Jobs, e.Retention.Events = span(k.Clusters), span(k.Jobs), span(k.Events)
	e.Limits.Workers, e.Limits.PerCluster, e.Limits.PerProvider, e.Limits.MaxUnavailable = s.MaxWorkers, s.PerCluster, s.PerProvider, s.MaxUnavailable
	force := !s.NoForceStop
	e.ForceStop, e.OnFailure, e.Recovery = &force, string(s.OnFailure), s.Recovery.Or(nil).String()
	if e.OnScaleFailure == "" {
		e.OnScaleFailure = "keep"
	}
	e.Query.RatePerSecond = cmp.Or(c.Query.RatePerSecond, 50)
	e.Query.Burst, e.Query.PageMaximum = cmp.Or(c.Query.Burst, 2*e.Query.RatePerSecond), cmp.Or(c.Query.PageMaximum, 500)
	e.Providers = slices.Clone(c.Providers)
	for i := range e.Providers {
		if e.Providers[i].APIKey != "" {
			e.Providers[i].APIKey = masked
		}
	}
	return e
}

const masked = "***"
