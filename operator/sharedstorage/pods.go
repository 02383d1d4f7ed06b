package sharedstorage

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// PodSettings is what a spec asks of pods, besides class, image, node selector and spread. It is
// port.Instance.Pod as JSON. Adapters without pods ignore it.
type PodSettings struct {
	Tolerations       []corev1.Toleration           `json:"tolerations,omitempty"`
	Affinity          *corev1.Affinity              `json:"affinity,omitempty"`
	PriorityClassName string                        `json:"priorityClassName,omitempty"`
	SchedulerName     string                        `json:"schedulerName,omitempty"`
	Spread            []v1alpha1.SpreadConstraint   `json:"topologySpreadConstraints,omitempty"`
	ImagePullSecrets  []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	Labels            map[string]string             `json:"labels,omitempty"`
	Annotations       map[string]string             `json:"annotations,omitempty"`
	RuntimeClassName  string                        `json:"runtimeClassName,omitempty"`
	HostAliases       []corev1.HostAlias            `json:"hostAliases,omitempty"`
	DNSConfig         *corev1.PodDNSConfig          `json:"dnsConfig,omitempty"`
	SharedMemory      int64                         `json:"sharedMemory,omitempty"` // bytes
	HugePages         int64                         `json:"hugePages,omitempty"`    // bytes, in pages of 2Mi
}

// PodSettingsOf reads the settings of an instance or a cluster manager. Those that cannot be read
// are none: only this package writes them.
func PodSettingsOf(raw json.RawMessage) (p PodSettings) {
	if len(raw) > 0 {
		_ = json.Unmarshal(raw, &p)
	}
	return p
}

// raw returns the settings as JSON; nil: nothing is asked for.
func (p PodSettings) raw() json.RawMessage {
	if reflect.ValueOf(p).IsZero() {
		return nil
	}
	text, _ := json.Marshal(p) // nothing in it fails
	return text
}

// podSettings returns what the spec asks of the pods of instances.
func (c *Cluster) podSettings() PodSettings {
	s, t := c.Spec, c.Spec.PodTemplate
	p := PodSettings{
		Tolerations: s.Scheduling.Tolerations, Affinity: s.Scheduling.Affinity, PriorityClassName: s.Scheduling.PriorityClassName,
		SchedulerName: s.Scheduling.SchedulerName, Spread: s.Scheduling.TopologySpreadConstraints, ImagePullSecrets: s.ImagePullSecrets,
		Labels: t.Metadata.Labels, Annotations: t.Metadata.Annotations,
		RuntimeClassName: t.Spec.RuntimeClassName, HostAliases: t.Spec.HostAliases, DNSConfig: t.Spec.DNSConfig,
	}
	if p.SchedulerName == corev1.DefaultSchedulerName {
		p.SchedulerName = ""
	}
	// An empty list or map is as good as none: an edit from one to the other restarts nothing.
	p.Tolerations, p.Spread, p.ImagePullSecrets, p.HostAliases = some(p.Tolerations), some(p.Spread), some(p.ImagePullSecrets), some(p.HostAliases)
	if len(p.Labels) == 0 {
		p.Labels = nil
	}
	if len(p.Annotations) == 0 {
		p.Annotations = nil
	}
	if s.SharedMemory != nil {
		p.SharedMemory = s.SharedMemory.Value()
	}
	if s.HugePages != nil {
		p.HugePages = s.HugePages.Value()
	}
	return p
}

func some[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// managerPod returns what the spec asks of the pod of the cluster manager.
func (c *Cluster) managerPod() json.RawMessage {
	p := c.podSettings()
	return PodSettings{Tolerations: p.Tolerations, PriorityClassName: p.PriorityClassName, SchedulerName: p.SchedulerName,
		ImagePullSecrets: p.ImagePullSecrets, Labels: p.Labels, Annotations: p.Annotations}.raw()
}

// spreadKeys are the topology keys over which the spec spreads instances, without that of nodes.
func (c *Cluster) spreadKeys() (keys []string) {
	if s := c.Spec.Scheduling.Spread; s != "" && s != defaultSpread {
		keys = append(keys, s)
	}
	for _, s := range c.Spec.Scheduling.TopologySpreadConstraints {
		if s.TopologyKey != defaultSpread {
			keys = append(keys, s.TopologyKey)
		}
	}
	return keys
}

// spreadMissing returns the topology keys in which no healthy reader stands apart from the writer,
// with the value of the writer.
func (c *Cluster) spreadMissing() (keys []string) {
	writer := c.Facts.writer()
	if writer == nil {
		return nil
	}
	for _, key := range c.spreadKeys() {
		value := writer.Domain.Value(key)
		apart := slices.ContainsFunc(c.Facts.readers(), func(i *port.Instance) bool {
			theirs := i.Domain.Value(key)
			return theirs != "" && theirs != value && c.Facts.healthy(i)
		})
		if value != "" && !apart {
			keys = append(keys, key+" "+value)
		}
	}
	return keys
}

// WrongPods rejects settings of pods that cannot be, with the path of the field. It repeats the CEL
// rules of the CRD, because not every store applies them.
func WrongPods(s *v1alpha1.SharedStorageClusterSpec) error {
	for _, wrong := range []func(*v1alpha1.SharedStorageClusterSpec) string{wrongMetadata, wrongSpread, wrongTolerations, wrongMemory} {
		if why := wrong(s); why != "" {
			return SpecInvalid.Errorf("%s", why)
		}
	}
	return nil
}

var (
	pawlKey  = regexp.MustCompile(`^([^/]*\.)?pawl\.dev/`)
	ownLabel = regexp.MustCompile(`^([^/]*\.)?pawl\.dev/|^app\.kubernetes\.io/`)
)

func wrongMetadata(s *v1alpha1.SharedStorageClusterSpec) string {
	m := s.PodTemplate.Metadata
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		path := fmt.Sprintf("podTemplate.metadata.labels[%s]", key)
		if ownLabel.MatchString(key) {
			return path + ": the operator owns it; use a label with another prefix"
		}
		if problems := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(m.Labels[key])); len(problems) > 0 {
			return path + ": " + problems[0]
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m.Annotations)) {
		path := fmt.Sprintf("podTemplate.metadata.annotations[%s]", key)
		if pawlKey.MatchString(key) {
			return path + ": the operator owns it; use an annotation with another prefix"
		}
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			return path + ": " + problems[0]
		}
	}
	return ""
}

func wrongSpread(s *v1alpha1.SharedStorageClusterSpec) string {
	seen := map[string]bool{}
	if s.Scheduling.Spread != "" {
		seen[s.Scheduling.Spread] = true
	}
	for n, one := range s.Scheduling.TopologySpreadConstraints {
		path := fmt.Sprintf("scheduling.topologySpreadConstraints[%d]", n)
		switch {
		case len(validation.IsQualifiedName(one.TopologyKey)) > 0:
			return fmt.Sprintf("%s.topologyKey: %q is no label of a node", path, one.TopologyKey)
		case seen[one.TopologyKey]:
			return fmt.Sprintf("%s.topologyKey: %s stands in scheduling.spread or an earlier constraint; remove one of them", path, one.TopologyKey)
		case one.MaxSkew < 0 || one.MaxSkew > 15:
			return fmt.Sprintf("%s.maxSkew: %d is not within 1 and 15", path, one.MaxSkew)
		case !slices.Contains([]string{"", "DoNotSchedule", "ScheduleAnyway"}, one.WhenUnsatisfiable):
			return fmt.Sprintf("%s.whenUnsatisfiable: %q is none of DoNotSchedule, ScheduleAnyway", path, one.WhenUnsatisfiable)
		}
		seen[one.TopologyKey] = true
	}
	return ""
}

func wrongTolerations(s *v1alpha1.SharedStorageClusterSpec) string {
	for n, t := range s.Scheduling.Tolerations {
		path := fmt.Sprintf("scheduling.tolerations[%d]", n)
		switch {
		case !slices.Contains([]corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists}, t.Operator):
			return fmt.Sprintf("%s.operator: %q is none of Equal, Exists", path, t.Operator)
		case t.Key == "" && t.Operator != corev1.TolerationOpExists:
			return path + ".key: without a key the operator is Exists"
		case t.Operator == corev1.TolerationOpExists && t.Value != "":
			return path + ".value: it is empty where the operator is Exists"
		case !slices.Contains([]corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect):
			return fmt.Sprintf("%s.effect: %q is none of NoSchedule, PreferNoSchedule, NoExecute", path, t.Effect)
		case t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute:
			return path + ".tolerationSeconds: it counts with effect NoExecute only"
		}
	}
	return ""
}

const hugePage = 2 << 20

func wrongMemory(s *v1alpha1.SharedStorageClusterSpec) string {
	if q := s.SharedMemory; q != nil && q.Value() < 1<<20 {
		return fmt.Sprintf("sharedMemory: %s is less than 1Mi", q)
	}
	if q := s.HugePages; q != nil && (q.Value() < hugePage || q.Value()%hugePage != 0) {
		return fmt.Sprintf("hugePages: %s is no multiple of 2Mi", q)
	}
	return ""
}

// wrongMemoryOf rejects memory that does not fit the class.
func (c *Cluster) wrongMemoryOf(class port.Class) error {
	p := c.podSettings()
	if class.Memory > 0 && p.SharedMemory > class.Memory {
		return SpecInvalid.Errorf("sharedMemory: %s is more than the memory of class %s, against which it counts; ask for less, or a larger class", c.Spec.SharedMemory, class.Name)
	}
	if p.HugePages == 0 {
		return nil
	}
	if class.Memory == 0 && class.CPU == 0 {
		return SpecInvalid.Errorf("hugePages: class %s has neither cpu nor memory, one of which Kubernetes wants beside huge pages; add one to the class", class.Name)
	}
	buffers := c.parameters(class)["shared_buffers"]
	if need, ok := memorySetting(buffers, defaultBuffers); ok && need+need/10 > p.HugePages {
		return SpecInvalid.Errorf("hugePages: %s does not hold shared_buffers (%d bytes) and a tenth more; ask for more, or lower shared_buffers", c.Spec.HugePages, need)
	}
	return nil
}

const defaultBuffers = 128 << 20 // of PostgreSQL

var memoryForm = regexp.MustCompile(`^([0-9]+) *(B|kB|MB|GB|TB)?$`)

// memorySetting returns the bytes of a setting in pages of 8 kB; not ok: PostgreSQL will judge it.
func memorySetting(text string, without int64) (bytes int64, ok bool) {
	if text == "" {
		return without, true
	}
	m := memoryForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 40)
	unit := map[string]int64{"": 8 << 10, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}[m[2]]
	return n * unit, err == nil && n < 1<<53/unit
}
