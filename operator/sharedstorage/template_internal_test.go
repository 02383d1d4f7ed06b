package sharedstorage

import (
	"testing"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The hashes are kept on pods and claims. If one of them changes here, an upgrade of the operator
// restarts every engine: a new field of the template must be left out when it has its default.
func TestTemplateHashesStay(t *testing.T) {
	for want, edit := range map[string]func(s *v1alpha1.SharedStorageClusterSpec, c *port.Class){
		"iqjw7i": func(*v1alpha1.SharedStorageClusterSpec, *port.Class) {},
		"2zgdu7": func(s *v1alpha1.SharedStorageClusterSpec, c *port.Class) {
			c.CPU, c.Memory = 250, 512<<20
		},
		"td5vu2": func(s *v1alpha1.SharedStorageClusterSpec, c *port.Class) {
			c.CPU, c.Memory = 250, 512<<20
			s.Images = map[string]string{"15.4": "postgres:15.4"}
			s.Scheduling = v1alpha1.SchedulingSpec{NodeSelector: map[string]string{"a": "1", "b": "2"}, Spread: "zone", WhenUnsatisfiable: "ScheduleAnyway"}
			s.Ports = &v1alpha1.PortRange{Start: 6000, Step: 1}
		},
	} {
		c, class := fixture(), port.Class{Name: "small"}
		edit(&c.Spec, &class)
		if got := c.template(class, "15.4"); got != want {
			t.Errorf("the hash is %s, want %s", got, want)
		}
	}
}

// What makes an instance stale, and what does not.
func TestStale(t *testing.T) {
	for what, c := range map[string]struct {
		edit func(c *Cluster)
		want bool
	}{
		"nothing":    {func(*Cluster) {}, false},
		"readers":    {func(c *Cluster) { c.Spec.Readers = new(int32(5)) }, false},
		"parameters": {func(c *Cluster) { c.Spec.Parameters = map[string]string{"work_mem": "8MB"} }, false},
		"the parameters of the class": {func(c *Cluster) {
			c.Facts.Classes["small"] = port.Class{Name: "small", Parameters: map[string]string{"a": "b"}}
		}, false},
		"another class's memory":  {func(c *Cluster) { c.Facts.Classes["large"] = port.Class{Name: "large", Memory: 1} }, false},
		"another version's image": {func(c *Cluster) { c.Spec.Images = map[string]string{"15.5": "x"} }, false},
		"defaults, written out": {func(c *Cluster) {
			c.Spec.Scheduling = v1alpha1.SchedulingSpec{Spread: "kubernetes.io/hostname", WhenUnsatisfiable: "DoNotSchedule"}
		}, false},
		"classes unknown":          {func(c *Cluster) { c.Facts.Classes = nil }, false},
		"a former template":        {func(c *Cluster) { c.Facts.Instances[1].Template = "former" }, true},
		"an unknown template":      {func(c *Cluster) { c.Facts.Instances[1].Template = "" }, false},
		"the class's memory":       {func(c *Cluster) { c.Facts.Classes["small"] = port.Class{Name: "small", Memory: 1} }, true},
		"the image of its version": {func(c *Cluster) { c.Spec.Images = map[string]string{"15.4": "x"} }, true},
		"the node selector":        {func(c *Cluster) { c.Spec.Scheduling.NodeSelector = map[string]string{"a": "b"} }, true},
		"the spread":               {func(c *Cluster) { c.Spec.Scheduling.Spread = "zone" }, true},
		"whenUnsatisfiable":        {func(c *Cluster) { c.Spec.Scheduling.WhenUnsatisfiable = "ScheduleAnyway" }, true},
		"ports":                    {func(c *Cluster) { c.Spec.Ports = &v1alpha1.PortRange{Start: 6000} }, true},
	} {
		cluster := fixture()
		for i := range cluster.Facts.Instances {
			cluster.Facts.Instances[i].Template = cluster.template(cluster.Facts.Classes["small"], "15.4")
		}
		c.edit(cluster)
		if got := templateDiffers(cluster); got != c.want {
			t.Errorf("%s: stale is %t, want %t", what, got, c.want)
		}
	}
}

// A port is kept while spec.ports has it, and otherwise is the lowest free one.
func TestPortOfARecreatedInstance(t *testing.T) {
	for _, c := range []struct {
		what  string
		ports *v1alpha1.PortRange
		has   []int32 // of the instances; the first one is recreated
		want  int32
	}{
		{"no range: the adapter chooses", nil, []int32{7000}, 0},
		{"within it", &v1alpha1.PortRange{Start: 7000, Step: 5}, []int32{7010, 7000}, 7010},
		{"between two of it", &v1alpha1.PortRange{Start: 7000, Step: 5}, []int32{7012, 7000}, 7005},
		{"below it", &v1alpha1.PortRange{Start: 7000}, []int32{6000, 6001}, 7000},
		{"taken by another", &v1alpha1.PortRange{Start: 7000}, []int32{7000, 7000}, 7001},
	} {
		w := &work{c: fixture(), f: &Facts{}}
		w.c.Spec.Ports = c.ports
		for n, p := range c.has {
			w.f.Instances = append(w.f.Instances, port.Instance{Name: string(rune('a' + n)), Port: p})
		}
		if got := w.freePort("a", "1"); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
