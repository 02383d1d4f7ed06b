package sharedstorage

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// template is what the spec asks of how an instance runs, besides its class and version by name and
// the parameters, which FlushParameters sets. An instance keeps the hash of the template that it runs
// with.
//
// The hash must not change when the operator is upgraded, because that would restart every engine: it
// covers what a person has written, not the pod that the operator makes of it, and a field counts only
// when it is not its default. So a new field leaves the hashes of all specs without it as they are.
type template struct {
	CPU      int64               `json:"cpu,omitempty"`
	Memory   int64               `json:"memory,omitempty"`
	Image    string              `json:"image,omitempty"`
	Selector map[string]string   `json:"nodeSelector,omitempty"`
	Spread   string              `json:"spread,omitempty"`
	Anyway   bool                `json:"anyway,omitempty"`
	Ports    *v1alpha1.PortRange `json:"ports,omitempty"`
	Pod      json.RawMessage     `json:"pod,omitempty"`
}

// template returns the hash of the template for an instance of a class and version.
func (c *Cluster) template(class port.Class, version string) string {
	s := c.Spec
	t := template{CPU: class.CPU, Memory: class.Memory, Image: s.Images[version], Selector: s.Scheduling.NodeSelector,
		Anyway: s.Scheduling.WhenUnsatisfiable == "ScheduleAnyway", Ports: s.Ports, Pod: c.podSettings().raw()}
	if s.Scheduling.Spread != defaultSpread {
		t.Spread = s.Scheduling.Spread
	}
	text, _ := json.Marshal(t) // nothing in it fails
	return hash(string(text))
}

// stale reports whether an instance runs with another template than the spec asks of its class and
// version. One whose template is unknown is not stale: it gets a template when it is next recreated.
func (c *Cluster) stale(i *port.Instance) bool {
	class, known := c.Facts.class(i.Class.Name)
	return known && i.Template != "" && i.Template != c.template(class, i.Version)
}

// templateDiffers reports whether an image, the content of the class, the placement, the pods or the ports have
// been edited since an instance was started.
func templateDiffers(c *Cluster) bool { return c.Facts.any(c.stale) }

// reshape lists the readers with another template; the flow recreates the writer last.
func (o *Operator) reshape(c *Cluster) (any, error) {
	class, _ := c.Facts.class(c.className())
	return c.rolling(Input{Class: class}, c.stale), nil
}

// rolling completes the input of a flow that recreates instances in turn.
func (c *Cluster) rolling(in Input, differs func(i *port.Instance) bool) Input {
	in.Readers, in.Former, in.Alone = c.Facts.places(differs), map[string]port.Instance{}, len(c.Facts.readers()) == 0
	in.Pooled = c.Spec.Pooler != nil
	for _, i := range c.Facts.placed() {
		if differs(i) {
			in.Former[i.Name] = port.Instance{Name: i.Name, Class: i.Class, Version: i.Version, Image: i.Image, Template: i.Template,
				NodeSelector: i.NodeSelector, Spread: i.Spread, SpreadAnyway: i.SpreadAnyway, Port: i.Port, Pod: i.Pod}
		}
	}
	return in
}

// placed returns the writer, or who wrote last, and the readers.
func (f *Facts) placed() []*port.Instance {
	all := f.readers()
	if leader := f.leader(); leader != nil {
		all = append(all, leader)
	}
	return all
}
